package scheduler

import (
	"reflect"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// aspect is what of a key a change is about.
type aspect uint8

const (
	ofState aspect = iota
	ofWanted
	ofActual
	aspects // how many there are
)

// change is one change of one key, as it is kept: references, no copies.
// Values are immutable.
type change struct {
	key           Key
	via           Key // the key through which it came about
	before, after any // of ofWanted and ofActual
	at            int64
	cause         uint64 // the transaction
	aspect        aspect
	op            Operation // of ofActual
	was, now      uint8     // states of ofState, sources of ofWanted
}

const (
	changeBytes = 96  // a change without values
	valueBytes  = 128 // a value of a kind that cannot be encoded, roughly
	chunkLen    = 16
)

// chunk is a run of changes; what is written in it stays as it is.
type chunk struct {
	changes [chunkLen]change
	bytes   int
}

// changeLog is all changes of keys in their order. Only the loop writes, and
// publishes what a turn has written; whoever reads takes a view.
type changeLog struct {
	chunks  []*chunk // oldest first
	tail    int      // changes written to the last one
	told    int      // of them, those that others may read
	bytes   int
	dropped uint64 // changes that were let go
	since   int64  // the log tells of all that happened after it
}

// logView is the published part of a log. It stays readable while the log goes on.
type logView struct {
	chunks []*chunk
	tail   int
	first  uint64 // the number of its first change, counting from the first ever
	since  int64
}

// append adds a change; it becomes visible with publish. The lock is taken
// only for a new chunk.
func (h *history) append(c *change, bytes int) {
	l := &h.log
	if len(l.chunks) == 0 || l.tail == chunkLen {
		h.mu.Lock()
		l.chunks, l.tail, l.told = append(l.chunks, &chunk{}), 0, 0
		l.bytes += h.written
		h.written = 0
		h.trim()
		h.mu.Unlock()
	}
	last := l.chunks[len(l.chunks)-1]
	last.changes[l.tail] = *c
	last.bytes += bytes
	l.tail++
	h.written += bytes
}

// publish lets others read what the turn has written.
func (h *history) publish() {
	if h.written == 0 {
		return
	}
	h.mu.Lock()
	h.log.told = h.log.tail
	h.log.bytes += h.written
	h.trim()
	h.mu.Unlock()
	h.written = 0
}

// trimOne lets the oldest chunk go; the newest stays.
func (l *changeLog) trimOne() bool {
	if len(l.chunks) < 2 {
		return false
	}
	c := l.chunks[0]
	l.since = c.changes[chunkLen-1].at
	l.bytes -= c.bytes
	l.dropped += chunkLen
	l.chunks[0] = nil
	l.chunks = l.chunks[1:]
	return true
}

// view takes what is published now.
func (h *history) view() logView {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &h.log
	return logView{chunks: append([]*chunk(nil), l.chunks...), tail: l.told, first: l.dropped, since: l.since}
}

// all yields the changes from number n on, oldest first.
func (v logView) all(yield func(*change) bool) { v.from(0, yield) }

func (v logView) from(n uint64, yield func(*change) bool) {
	skip := 0
	if n > v.first {
		skip = int(n - v.first)
	}
	for i := skip / chunkLen; i < len(v.chunks); i++ {
		to := chunkLen
		if i == len(v.chunks)-1 {
			to = v.tail
		}
		for j := max(0, skip-i*chunkLen); j < to; j++ {
			if !yield(&v.chunks[i].changes[j]) {
				return
			}
		}
	}
}

// newest yields the changes, newest first.
func (v logView) newest(yield func(*change) bool) {
	for i := len(v.chunks) - 1; i >= 0; i-- {
		from := chunkLen
		if i == len(v.chunks)-1 {
			from = v.tail
		}
		for j := from - 1; j >= 0; j-- {
			if !yield(&v.chunks[i].changes[j]) {
				return
			}
		}
	}
}

// end is the number of the change that comes next.
func (v logView) end() uint64 {
	if len(v.chunks) == 0 {
		return v.first
	}
	return v.first + uint64((len(v.chunks)-1)*chunkLen+v.tail)
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
	if was.source == now.source && (plain || was.same && now.same || !differ(kindOf(n), n.Key, was.value, now.value)) {
		return
	}
	c := change{key: n.Key, before: was.value, after: now.value, at: e.now.UnixNano(), cause: e.g.Cause,
		aspect: ofWanted, was: uint8(was.source), now: uint8(now.source)}
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
	c := change{key: n.Key, via: o.via, before: actualOf(n), at: e.now.UnixNano(), cause: o.cause, aspect: ofActual, op: o.what}
	if o.what != OpDelete {
		c.after = o.to
	}
	e.hist.append(&c, changeBytes)
}

// saw notes that the world was found to be something else than was believed.
// same tells that it was as wanted before.
func (e *engine) saw(n *graph.Node, was any, same bool) {
	now := actualOf(n)
	if e.hist.off() || same && has(n, flagSame) || !differ(kindOf(n), n.Key, was, now) {
		return
	}
	e.hist.append(&change{key: n.Key, before: was, after: now, at: e.now.UnixNano(), cause: e.g.Cause, aspect: ofActual, op: OpLook},
		changeBytes+e.sizeOf(n, now))
	e.keepRecord(e.g.Cause)
}

// told notes that a node's state is another than before.
func (e *engine) told(n *graph.Node, was, now State) {
	if e.hist.off() || (was == Absent || was == Removed) && (now == Absent || now == Removed) {
		return
	}
	c := change{key: n.Key, at: e.now.UnixNano(), cause: n.Cause, aspect: ofState, was: uint8(was), now: uint8(now)}
	if n.Via != nil && n.Via != n {
		c.via = n.Via.Key
	}
	e.hist.append(&c, changeBytes)
	e.keepRecord(n.Cause)
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

// differ tells whether two values of a key are different to its kind.
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
			k.size += (len(b) - k.size) / min(int(k.sized/sizeEvery)+1, 16)
		}
	}
	k.sized++
	return k.size
}

const sizeEvery = 64

// off tells that no history is kept.
func (h *history) off() bool { return h.maxBytes < 0 }

func timeOf(nanos int64) time.Time { return time.Unix(0, nanos) }
