package engine

import (
	"time"

	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// recorder notes what happened.
type recorder struct {
	*assess.Assessor
	Hist        *history.Log
	Seq         uint64                     // numbers transactions
	Began       uint64                     // the number of the last one of an earlier run
	provisional map[uint64]*history.Record // of looks that nothing has come of yet
	Now         time.Time

	tallies map[uint64]*tally // of transactions that do something, by number
	resting []uint64          // those of which nothing was under way in this turn
}

// Note opens the record of a transaction. Looks are kept only once something
// comes of them.
func (e *recorder) Note(source, note string, asked []*graph.Node) *history.Record {
	r := &history.Record{Seq: e.Seq, Time: e.Now, Source: source, Note: note, AskedTotal: len(asked), Settled: e.Now}
	r.Asked = make([]kv.Key, min(len(asked), history.MaxAsked))
	for i := range r.Asked {
		r.Asked[i] = asked[i].Key
	}
	return r
}

// WithRecord runs f as something that has a number and a record of its own, though
// no transaction asked for it. The record is kept once something comes of it.
// What is done before the first transaction has the number of no transaction.
func (e *recorder) WithRecord(source, note string, f func()) {
	if e.Seq > e.Began {
		e.Seq++
		e.G.Cause, e.G.Via = e.Seq, nil
		defer func() { e.G.Cause = 0 }()
		e.KeepProvisional(e.Note(source, note, nil))
	}
	f()
}

// NotePlanned notes the operations that were due at once.
func NotePlanned(r *history.Record, ready []*kind.Op) {
	for _, o := range ready {
		if o.Cause == r.Seq && o.What != kv.OpLook && len(r.Planned) < history.MaxAsked {
			r.Planned = append(r.Planned, history.PlannedStep{Op: o.What, Key: o.Key})
		}
	}
}

// recordDone counts an outcome and adds it to the history.
func (e *recorder) recordDone(o *kind.Op) {
	o.Kind.Count(o)
	if o.Err == nil && o.Node.Goal() != nil && assess.Has(o.Node, assess.FlagDrifted) {
		o.Kind.Drift.Repaired++
	}
	s := history.DoneStep{Op: o.Did(), Key: o.Key, Start: o.Start, Took: o.Took}
	if !o.Due.IsZero() {
		s.Waited = max(o.Start.Sub(o.Due), 0)
	}
	if o.Via != nil {
		s.Via = o.Via.Key
	}
	if o.Err != nil {
		s.Error = kv.FirstLine(o.Err) // a panic brings its stack, which the log has
		// What goes because a need is gone has lost that before.
		s.Lapsed = kv.IsLapsed(o.Err) || o.What != kv.OpDelete && o.Node.X != nil && o.Node.X.Lapsed
	}
	if o.Node.Phase != graph.Overdue { // else it was counted when that was told
		e.ended(o, s.Error != "" && !s.Lapsed)
	}
	e.confirmRecord(o.Cause)
	e.Hist.Step(o.Cause, e.Now, s)
}

// What follows is called where things change. It does nothing in a preview.

// desiredState is what is asked of a node, to be compared with later.
type desiredState struct {
	value   any
	gen     uint32
	source  int8
	refused bool // value is none that counts
}

func desiredOf(n *graph.Node) desiredState {
	v := assess.WantedOf(n)
	return desiredState{v, n.Gen, n.Source, v != nil && n.Desired == nil}
}

// recordDesired notes that a node is asked for something else than before. A wish for
// the same leaves no trace, unless it is another's.
func (e *recorder) recordDesired(n *graph.Node, was desiredState) {
	if e.Hist.Off() {
		return
	}
	now := desiredOf(n)
	plain := was.gen == now.gen && !was.refused && !now.refused
	if was.source == now.source && (plain || !kind.DesiredDiffer(kind.Of(n), n.Key, was.value, now.value)) {
		return
	}
	k := kind.Of(n)
	c := history.Entry{Key: n.Key, Before: k.Show(was.value), After: k.Show(now.value), At: e.Now.UnixNano(), Cause: e.G.Cause,
		Of: history.OfWanted, From: was.source, To: now.source}
	if n.Source == graph.Derived && n.Base != nil {
		c.Via = n.Base.Key
	}
	e.Hist.Append(&c, e.sizeOf(n, now.value))
}

// recordApplied notes that an operation changed what is there.
func (e *recorder) recordApplied(n *graph.Node, o *kind.Op) {
	if e.Hist.Off() {
		return
	}
	c := history.Entry{Key: n.Key, Before: o.Kind.Show(assess.ActualOf(n)), At: e.Now.UnixNano(), Cause: o.Cause, Of: history.OfActual, Op: o.Did()}
	if o.Via != nil {
		c.Via = o.Via.Key
	}
	if o.What != kv.OpDelete {
		c.After = o.Kind.Show(o.To)
	}
	e.Hist.Append(&c, 0)
}

// recordObserved notes that something else was found than was believed to be there.
// same reports whether it was as wanted before.
func (e *recorder) recordObserved(n *graph.Node, was any, same bool) {
	now, k := assess.ActualOf(n), kind.Of(n)
	if e.Hist.Off() || same && assess.Has(n, assess.FlagSame) || !kind.Differ(k, n.Key, was, now) {
		return
	}
	e.Hist.Append(&history.Entry{Key: n.Key, Before: k.Show(was), After: k.Show(now), At: e.Now.UnixNano(), Cause: e.G.Cause, Of: history.OfActual, Op: kv.OpLook},
		e.sizeOf(n, now))
	e.confirmRecord(e.G.Cause)
}

// RecordState notes that a node's state is another than before.
func (e *recorder) RecordState(n *graph.Node, was, now kv.State) {
	if e.Hist.Off() || (was == kv.Absent || was == kv.Removed) && (now == kv.Absent || now == kv.Removed) {
		return
	}
	e.confirmRecord(n.Cause)
	if c := e.Hist.Latest(n.Key); c != nil && c.Cause == n.Cause {
		c.Of, c.Was, c.Now = c.Of|history.OfState, was, now
		return
	}
	c := history.Entry{Key: n.Key, At: e.Now.UnixNano(), Cause: n.Cause, Of: history.OfState, Was: was, Now: now}
	if n.Via != nil && n.Via != n {
		c.Via = n.Via.Key
	}
	e.Hist.Append(&c, 0)
}

// recordBy notes in the record under which a drift was found who caused it. It reports
// whether that is news there.
func (e *recorder) recordBy(by string) bool {
	if by == "" {
		return false
	}
	if r := e.provisional[e.G.Cause]; r != nil {
		return r.NoteBy(by)
	}
	return e.Hist.NoteBy(e.G.Cause, by)
}

// confirmRecord keeps the record of a look that something has come of.
func (e *recorder) confirmRecord(seq uint64) {
	if r := e.provisional[seq]; r != nil {
		delete(e.provisional, seq)
		e.Hist.Insert(r)
	}
}

// sizeOf is about how many bytes a value takes. To encode each would cost more
// than all else: one of many is encoded, and the kind's average counts.
func (e *recorder) sizeOf(n *graph.Node, v any) int {
	k := kind.Of(n)
	switch {
	case v == nil:
		return 0
	case k == nil || k.Encode == nil:
		return valueBytes
	}
	if k.Sized%sizeEvery == 0 {
		if b, err := kind.EncodeValue(k, v); err == nil {
			k.Size += (len(b) - k.Size) / min(k.Sized/sizeEvery+1, 16)
		}
	}
	k.Sized++
	return k.Size
}

const (
	sizeEvery  = 64
	valueBytes = 128 // a value of a kind that cannot be encoded, roughly
)

const maxProvisional = 4096

// KeepProvisional holds the record of a look back until something comes of it: an
// echo of our own act leaves no trace in the history.
func (e *recorder) KeepProvisional(r *history.Record) {
	if len(e.provisional) >= maxProvisional {
		clear(e.provisional)
	}
	e.provisional[r.Seq] = r
}
