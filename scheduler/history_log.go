package scheduler

import (
	"iter"
	"reflect"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// aspects are what of a key a change is about: its state, and what is wanted
// or what is there.
type aspects uint8

const (
	ofState aspects = 1 << iota
	ofWanted
	ofActual
)

// change is one change of one key, as it is kept: references, no copies.
// Values are immutable.
type change struct {
	key           Key
	via           Key // the key through which it came about
	before, after any // what was wanted, or what was there
	at            int64
	cause         uint64 // the transaction
	of            aspects
	op            Operation // that changed what is there
	was, now      State
	from, to      int8 // the sources that want it
}

const (
	changeBytes = 96  // a change without values
	valueBytes  = 128 // a value of a kind that cannot be encoded, roughly
	chunkLen    = 16
	mergeReach  = 4
)

// chunk is a run of changes.
type chunk struct {
	changes [chunkLen]change
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
func (l *changeLog) at(n uint64) *change {
	i := n - l.first
	return &l.chunks[i/chunkLen].changes[i%chunkLen]
}

// append adds a change. The lock is taken only for a new chunk.
func (h *history) append(c *change, bytes int) {
	l := &h.log
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

// publish lets others read what the turn has written.
func (h *history) publish() {
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
func (h *history) count() {
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
	l.since = c.changes[chunkLen-1].at
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
func (h *history) view() logView {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &h.log
	l.readers++
	return logView{chunks: slices.Clone(l.chunks), first: l.first, next: max(l.told, l.first), since: l.since}
}

// release ends the use of a view.
func (h *history) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log.readers--
}

func (v *logView) at(n uint64) *change {
	i := n - v.first
	return &v.chunks[i/chunkLen].changes[i%chunkLen]
}

// from yields the changes from number n on, oldest first.
func (v *logView) from(n uint64) iter.Seq[*change] {
	return func(yield func(*change) bool) {
		for i := max(n, v.first); i < v.next; i++ {
			if !yield(v.at(i)) {
				return
			}
		}
	}
}

// newest yields the changes, newest first.
func (v *logView) newest(yield func(*change) bool) {
	for i := v.next; i > v.first; i-- {
		if !yield(v.at(i - 1)) {
			return
		}
	}
}

// What follows is called where things change. It does nothing in a preview.

// wish is what is asked of a node, to be compared with later.
type wish struct {
	value   any
	gen     uint32
	source  int8
	same    bool // as the world is
	refused bool // value is none that counts
}

func wishOf(n *graph.Node) wish {
	v := wantedOf(n)
	return wish{v, n.Gen, n.Source, has(n, flagSame), v != nil && n.Desired == nil}
}

// wantedOf is what statuses tell as desired: also a value that was refused.
func wantedOf(n *graph.Node) any {
	if n.Desired == nil && n.X != nil {
		return n.X.Asked
	}
	return n.Desired
}

// asked notes that a node is asked for something else than before. A wish for
// the same leaves no trace, unless it is another's.
func (e *engine) asked(n *graph.Node, was wish) {
	if e.sim != nil || e.hist.off() {
		return
	}
	now := wishOf(n)
	plain := was.gen == now.gen && !was.refused && !now.refused
	if was.source == now.source && (plain || was.same && now.same || !wishesDiffer(kindOf(n), n.Key, was.value, now.value)) {
		return
	}
	k := kindOf(n)
	c := change{key: n.Key, before: k.show(was.value), after: k.show(now.value), at: e.now.UnixNano(), cause: e.g.Cause,
		of: ofWanted, from: was.source, to: now.source}
	if n.Source == graph.Derived && n.Base != nil {
		c.via = n.Base.Key
	}
	e.hist.append(&c, changeBytes+e.sizeOf(n, now.value))
}

// made notes that an operation changed what is there.
func (e *engine) made(n *graph.Node, o *op) {
	if e.sim != nil || e.hist.off() {
		return
	}
	c := change{key: n.Key, before: o.kind.show(actualOf(n)), at: e.now.UnixNano(), cause: o.cause, of: ofActual, op: o.what}
	if o.via != nil {
		c.via = o.via.Key
	}
	if o.what != OpDelete {
		c.after = o.kind.show(o.to)
	}
	e.hist.append(&c, changeBytes)
}

// saw notes that the world was found to be something else than was believed.
// same reports whether it was as wanted before.
func (e *engine) saw(n *graph.Node, was any, same bool) {
	now, k := actualOf(n), kindOf(n)
	if e.hist.off() || same && has(n, flagSame) || !differ(k, n.Key, was, now) {
		return
	}
	e.hist.append(&change{key: n.Key, before: k.show(was), after: k.show(now), at: e.now.UnixNano(), cause: e.g.Cause, of: ofActual, op: OpLook},
		changeBytes+e.sizeOf(n, now))
	e.keepRecord(e.g.Cause)
}

// told notes that a node's state is another than before.
func (e *engine) told(n *graph.Node, was, now State) {
	if e.hist.off() || (was == Absent || was == Removed) && (now == Absent || now == Removed) {
		return
	}
	e.keepRecord(n.Cause)
	if c := e.hist.latest(n.Key); c != nil && c.cause == n.Cause {
		c.of, c.was, c.now = c.of|ofState, was, now
		return
	}
	c := change{key: n.Key, at: e.now.UnixNano(), cause: n.Cause, of: ofState, was: was, now: now}
	if n.Via != nil && n.Via != n {
		c.via = n.Via.Key
	}
	e.hist.append(&c, changeBytes)
}

// latest finds a change of the key in this turn, to tell the state with it.
// States are told in about the order in which things changed.
func (h *history) latest(key Key) *change {
	l := &h.log
	from := max(l.merge, l.first) // records that come may have made it shorter
	for i := from; i < min(from+mergeReach, l.next); i++ {
		if c := l.at(i); c.key == key {
			l.merge = i + 1
			return c
		}
	}
	return nil
}

// keepRecord keeps the record of a look that something has come of.
func (e *engine) keepRecord(seq uint64) {
	if r := e.unkept[seq]; r != nil {
		delete(e.unkept, seq)
		e.hist.insert(r)
	}
}

func actualOf(n *graph.Node) any {
	if n.Presence == graph.Absent {
		return nil
	}
	return n.Actual
}

// differ reports whether two values of a key are different to its kind.
func differ(k *kind, key Key, a, b any) (differ bool) {
	switch {
	case a == nil || b == nil:
		return a != nil || b != nil
	case k == nil:
		return !reflect.DeepEqual(a, b)
	}
	defer func() {
		if recover() != nil { // values that its kind refused
			differ = true
		}
	}()
	return k.compare(key, a, b).Change != Same
}

// sizeOf is about how many bytes a value takes. To encode each would cost more
// than all else: one of many is encoded, and the kind's average counts.
func (e *engine) sizeOf(n *graph.Node, v any) int {
	k := kindOf(n)
	switch {
	case v == nil:
		return 0
	case k == nil || k.encode == nil:
		return valueBytes
	}
	if k.sized%sizeEvery == 0 {
		if b, err := encodeValue(k, v); err == nil {
			k.size += (len(b) - k.size) / min(k.sized/sizeEvery+1, 16)
		}
	}
	k.sized++
	return k.size
}

const sizeEvery = 64

// off reports whether no history is kept.
func (h *history) off() bool { return h.maxBytes < 0 }

func timeOf(nanos int64) time.Time { return time.Unix(0, nanos) }
