package history

import (
	"iter"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Aspects are what of a key an entry is about: its state, and what is wanted
// or what is there.
type Aspects uint8

// The aspects.
const (
	OfState Aspects = 1 << iota
	OfWanted
	OfActual
)

// Entry is one change of one key, as it is kept: references, no copies.
// Values are immutable.
type Entry struct {
	Key           kv.Key
	Via           kv.Key // the key through which it came about
	Before, After any    // what was wanted, or what was there
	At            int64  // unix nanoseconds
	Cause         uint64 // the transaction
	Of            Aspects
	Op            kv.Operation // that changed what is there
	Was, Now      kv.State
	From, To      int8 // the sources that want it
}

const (
	changeBytes = 96 // an entry without values
	chunkLen    = 16
	mergeReach  = 4
)

// chunk is a run of changes.
type chunk struct {
	changes [chunkLen]Entry
	bytes   int
}

// changeLog is all changes of keys in their order, numbered from the first
// ever. Only the loop writes. With the end of a turn, what it has written is
// told and stays as it is; whoever reads takes a view of that.
type changeLog struct {
	chunks []*chunk // oldest first
	first  uint64   // the number of the oldest change
	told   uint64   // the number of the first change that is not told
	bytes  int
	since  int64 // the log tells of all that happened after it

	readers int    // how many views are in use
	spare   *chunk // that went while nobody read

	// The loop's own.
	next    uint64 // the number of the next change
	written int    // bytes that are not counted yet
	merge   uint64 // the first change of the turn whose state may follow
}

// logView is the told part of a log. It stays readable while the log goes on.
type logView struct {
	chunks      []*chunk
	first, next uint64
	since       int64
}

// at is the change of a number.
func (l *changeLog) at(n uint64) *Entry {
	i := n - l.first
	return &l.chunks[i/chunkLen].changes[i%chunkLen]
}

// Append adds an entry, whose values take so many bytes. Only the loop calls it; the lock
// is taken only for a new chunk.
func (h *Log) Append(c *Entry, bytes int) {
	if h.Off() {
		return
	}
	l, bytes := &h.log, changeBytes+bytes
	if l.next == l.first+uint64(len(l.chunks)*chunkLen) {
		h.mu.Lock()
		l.chunks = append(l.chunks, l.newChunk())
		h.count()
		h.mu.Unlock()
	}
	*l.at(l.next) = *c
	l.chunks[len(l.chunks)-1].bytes += bytes
	l.next++
	l.written += bytes
}

// Publish lets others read what the turn has written.
func (h *Log) Publish() {
	l := &h.log
	if l.told == l.next {
		return
	}
	l.merge = l.next
	h.mu.Lock()
	l.told = l.next
	h.count()
	h.grown()
	h.mu.Unlock()
}

// count makes room for what was written.
func (h *Log) count() {
	h.log.bytes += h.log.written
	h.log.written = 0
	h.trim()
	h.log.merge = max(h.log.merge, h.log.first)
}

// trimOne lets the oldest chunk go; the newest stays.
func (l *changeLog) trimOne() bool {
	if len(l.chunks) < 2 {
		return false
	}
	c := l.chunks[0]
	l.since = c.changes[chunkLen-1].At
	l.bytes -= c.bytes
	l.first += chunkLen
	if l.readers == 0 {
		l.spare = c
	}
	l.chunks[0] = nil
	l.chunks = l.chunks[1:]
	return true
}

// newChunk is the chunk that went last, if nobody reads it, or a new one: who
// changes more at once than is kept writes over it again and again.
func (l *changeLog) newChunk() *chunk {
	c := l.spare
	l.spare = nil
	if c == nil {
		return &chunk{}
	}
	c.bytes = 0
	return c
}

// view takes what is told now. It must be given back with release.
func (h *Log) view() logView {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &h.log
	l.readers++
	return logView{chunks: slices.Clone(l.chunks), first: l.first, next: max(l.told, l.first), since: l.since}
}

// release ends the use of a view.
func (h *Log) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log.readers--
}

func (v *logView) at(n uint64) *Entry {
	i := n - v.first
	return &v.chunks[i/chunkLen].changes[i%chunkLen]
}

// from yields the changes from number n on, oldest first.
func (v *logView) from(n uint64) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for i := max(n, v.first); i < v.next; i++ {
			if !yield(v.at(i)) {
				return
			}
		}
	}
}

// newest yields the changes, newest first.
func (v *logView) newest(yield func(*Entry) bool) {
	for i := v.next; i > v.first; i-- {
		if !yield(v.at(i - 1)) {
			return
		}
	}
}

// Latest finds an entry of the key in this turn, nil if there is none, to tell the state with it.
// States are told in about the order in which things changed.
func (h *Log) Latest(key kv.Key) *Entry {
	l := &h.log
	from := max(l.merge, l.first) // records that come may have made it shorter
	for i := from; i < min(from+mergeReach, l.next); i++ {
		if c := l.at(i); c.Key == key {
			l.merge = i + 1
			return c
		}
	}
	return nil
}

// Off reports whether no history is kept.
func (h *Log) Off() bool { return h.maxBytes < 0 }

func timeOf(nanos int64) time.Time { return time.Unix(0, nanos) }
