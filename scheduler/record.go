package scheduler

import (
	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// note opens the record of a transaction. Looks are kept only once something
// comes of them.
func (e *engine) note(source, note string, asked []*graph.Node) *Record {
	r := &Record{Seq: e.seq, Time: e.now, Source: source, Note: note, AskedTotal: len(asked), Settled: e.now}
	r.Asked = make([]Key, min(len(asked), history.MaxAsked))
	for i := range r.Asked {
		r.Asked[i] = asked[i].Key
	}
	return r
}

// because runs f as something that has a number and a record of its own, though
// no transaction asked for it. The record is kept once something comes of it.
// What is done before the first transaction has the number of no transaction.
func (e *engine) because(source, note string, f func()) {
	if e.seq > e.began {
		e.seq++
		e.g.Cause, e.g.Via = e.seq, nil
		defer func() { e.g.Cause = 0 }()
		e.keepLater(e.note(source, note, nil))
	}
	f()
}

// notePlanned notes the operations that were due at once.
func notePlanned(r *Record, ready []*op) {
	for _, o := range ready {
		if o.cause == r.Seq && o.what != OpLook && len(r.Planned) < history.MaxAsked {
			r.Planned = append(r.Planned, PlannedStep{Op: o.what, Key: o.key})
		}
	}
}

// record adds an outcome to the history.
func (e *engine) record(o *op) {
	s := DoneStep{Op: o.what, Key: o.key, Start: o.start, Took: o.took}
	if o.via != nil {
		s.Via = o.via.Key
	}
	if o.err != nil {
		s.Error = kv.FirstLine(o.err) // a panic brings its stack, which the log has
		// What goes because a need is gone has lost that before.
		s.Lapsed = kv.IsLapsed(o.err) || o.what != OpDelete && o.n.X != nil && o.n.X.Lapsed
	}
	e.keepRecord(o.cause)
	e.hist.Step(o.cause, e.now, s)
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

// asked notes that a node is asked for something else than before. A wish for
// the same leaves no trace, unless it is another's.
func (e *engine) asked(n *graph.Node, was wish) {
	if e.hist.Off() {
		return
	}
	now := wishOf(n)
	plain := was.gen == now.gen && !was.refused && !now.refused
	if was.source == now.source && (plain || was.same && now.same || !wishesDiffer(kindOf(n), n.Key, was.value, now.value)) {
		return
	}
	k := kindOf(n)
	c := history.Entry{Key: n.Key, Before: k.show(was.value), After: k.show(now.value), At: e.now.UnixNano(), Cause: e.g.Cause,
		Of: history.OfWanted, From: was.source, To: now.source}
	if n.Source == graph.Derived && n.Base != nil {
		c.Via = n.Base.Key
	}
	e.hist.Append(&c, e.sizeOf(n, now.value))
}

// made notes that an operation changed what is there.
func (e *engine) made(n *graph.Node, o *op) {
	if e.hist.Off() {
		return
	}
	c := history.Entry{Key: n.Key, Before: o.kind.show(actualOf(n)), At: e.now.UnixNano(), Cause: o.cause, Of: history.OfActual, Op: o.what}
	if o.via != nil {
		c.Via = o.via.Key
	}
	if o.what != OpDelete {
		c.After = o.kind.show(o.to)
	}
	e.hist.Append(&c, 0)
}

// saw notes that the world was found to be something else than was believed.
// same reports whether it was as wanted before.
func (e *engine) saw(n *graph.Node, was any, same bool) {
	now, k := actualOf(n), kindOf(n)
	if e.hist.Off() || same && has(n, flagSame) || !differ(k, n.Key, was, now) {
		return
	}
	e.hist.Append(&history.Entry{Key: n.Key, Before: k.show(was), After: k.show(now), At: e.now.UnixNano(), Cause: e.g.Cause, Of: history.OfActual, Op: OpLook},
		e.sizeOf(n, now))
	e.keepRecord(e.g.Cause)
}

// told notes that a node's state is another than before.
func (e *engine) told(n *graph.Node, was, now State) {
	if e.hist.Off() || (was == Absent || was == Removed) && (now == Absent || now == Removed) {
		return
	}
	e.keepRecord(n.Cause)
	if c := e.hist.Latest(n.Key); c != nil && c.Cause == n.Cause {
		c.Of, c.Was, c.Now = c.Of|history.OfState, was, now
		return
	}
	c := history.Entry{Key: n.Key, At: e.now.UnixNano(), Cause: n.Cause, Of: history.OfState, Was: was, Now: now}
	if n.Via != nil && n.Via != n {
		c.Via = n.Via.Key
	}
	e.hist.Append(&c, 0)
}

// keepRecord keeps the record of a look that something has come of.
func (e *engine) keepRecord(seq uint64) {
	if r := e.unkept[seq]; r != nil {
		delete(e.unkept, seq)
		e.hist.Insert(r)
	}
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

const (
	sizeEvery  = 64
	valueBytes = 128 // a value of a kind that cannot be encoded, roughly
)

const maxUnkept = 4096

// keepLater holds the record of a look back until something comes of it: an
// echo of our own act leaves no trace in the history.
func (e *engine) keepLater(r *Record) {
	if len(e.unkept) >= maxUnkept {
		clear(e.unkept)
	}
	e.unkept[r.Seq] = r
}
