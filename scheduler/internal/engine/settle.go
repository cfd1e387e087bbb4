package engine

import (
	"errors"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

const repairWindow = time.Minute

// Settle takes the outcome of an operation into the graph.
func (e *observer) Settle(o *kind.Op) {
	if o.What == kv.OpLook {
		e.CausedBy(o.Cause, nil, func() { e.looked(o) })
		return
	}
	n := o.Node
	e.Out.Touch(n)
	e.G.Unuse(n) // also when it is overdue: who hangs holds up nobody for longer than that
	if o.PastDeadline {
		e.CausedBy(o.Cause, n, func() { e.overdue(n, o) })
		return
	}
	if o.What == kv.OpDelete && o.Err != nil && kv.Gone(o.Err) {
		o.Err = nil
	}
	e.recordDone(o)
	if kind.Of(n) != o.Kind {
		e.orphaned(n)
		return
	}
	if n.Phase == graph.Overdue {
		e.CausedBy(o.Cause, n, func() { e.late(n, o) })
		return
	}
	e.stamp++
	n.Stamp = e.stamp
	e.CausedBy(o.Cause, n, func() {
		if o.Err != nil {
			e.failed(n, o)
		} else {
			e.Succeeded(n, o)
		}
		e.lookAgain(n)
	})
	e.G.Wake(n)
}

// Succeeded takes in that an operation did what it was to do.
func (e *observer) Succeeded(n *graph.Node, o *kind.Op) {
	e.recordApplied(n, o)
	e.clearHold(n)
	e.Unleave(n)
	repaired := assess.Has(n, assess.FlagDrifted)
	e.SetFlag(n, assess.FlagDrifted, false)
	e.SetFlag(n, assess.FlagStale, false)
	if o.What != kv.OpUpdate { // what was not read yet may depend on it still
		e.SetFlag(n, assess.FlagAdopted, false)
	}
	e.G.BecomeIdle(n)
	switch {
	case o.What == kv.OpDelete:
		e.gone(n, false)
	case o.Release:
		e.gaveBack(n, o.To)
	default:
		if o.What == kv.OpCreate {
			e.setTaken(n, o.Foreign && o.Kind.Release != nil, o.From)
		}
		if o.What == kv.OpCreate || repaired {
			e.Out.RecheckDependents(n) // what was found that depends on it since may have been about to go with it
		}
		e.made(n, o)
		e.retryAbove(n)
	}
}

// made: the object is as the operation was to make it. By now something else may be wanted.
func (e *observer) made(n *graph.Node, o *kind.Op) {
	e.applied(n, o.Kind, o.To)
	a := graph.ActualState{Presence: graph.Present, Actual: o.To, Meta: o.Meta}
	if n.Gen == o.Gen && n.Goal() != nil {
		if n.X != nil && n.X.Refused { // this time it was taken
			e.accept(n)
		}
		e.G.AdoptNeeds(n)
		e.rebuild(e.G.SetActual(n, a, false))
		e.reached(n)
		return
	}
	e.G.Made(n)
	if n.Goal() != nil {
		a.Change = graph.FromThis
	}
	e.SetFlag(n, assess.FlagSame, false)
	e.rebuild(e.G.SetActual(n, a, false))
	e.noteSame(n)
}

// rebuild: what others were made with has changed. They are made anew, those
// that are still there.
func (e *observer) rebuild(stale []graph.Stale) {
	for _, s := range stale {
		if s.Sure {
			e.setStale(s.Node, true)
		}
		e.G.Wake(s.Node)
	}
}

// failed takes in that an operation did not do what it was to do. An error over a value that
// is not wanted any more says nothing of the one that is: that is tried without waiting. A
// deletion is one whatever is wanted, and has failed.
func (e *observer) failed(n *graph.Node, o *kind.Op) {
	if o.What == kv.OpUpdate && kv.Gone(o.Err) {
		e.G.BecomeIdle(n)
		e.SeenGone(n)
		return
	}
	var invalid *kv.InvalidError
	if errors.As(o.Err, &invalid) && n.Gen == o.Gen && o.What != kv.OpDelete {
		e.G.Extra(n).Invalid, n.X.Refused = o.Err, true
		n.X.Asked = o.To
	}
	if n.Gen == o.Gen || o.What == kv.OpDelete {
		e.noteFailure(n, o.What, o.Err)
		e.G.Extra(n).LastTo = o.To
		if o.What == kv.OpDelete {
			n.X.LastTo = o.From
		}
	}
	if o.What == kv.OpUpdate && !e.G.Changing(n) && n.Goal() != nil {
		e.G.AnnounceChange(n, o.From)
	}
	if n.Gen == o.Gen && o.What != kv.OpDelete && kv.IsIncomplete(o.Err) {
		e.tried(n)
	}
	e.G.BecomeIdle(n)
	e.applied(n, o.Kind, nil)
	e.SetFlag(n, assess.FlagSame, false)
	if kind.Of(n) != nil && kind.Of(n).Retrieve != nil {
		e.SetFlag(n, assess.FlagNeedsRead, true) // see at once what it left behind
	}
	e.G.SetActual(n, graph.ActualState{Presence: graph.Unknown, Actual: n.Actual, Meta: n.Meta}, false)
}

// overdue: an operation ran past its deadline and may still do anything.
func (e *observer) overdue(n *graph.Node, o *kind.Op) {
	e.ended(o, true)
	e.G.Extra(n).Err = o.OverdueError()
	e.applied(n, kind.Of(n), nil)
	e.G.Wake(n)
	e.G.BecomeOverdue(n)
	e.G.SetActual(n, graph.ActualState{Presence: graph.Unknown, Actual: n.Actual, Meta: n.Meta}, false)
}

// late: an operation that was given up has ended after all. Whatever it says,
// the object is read.
func (e *observer) late(n *graph.Node, o *kind.Op) {
	e.G.BecomeLate(n)
	switch {
	case kind.Of(n) != nil && kind.Of(n).Retrieve != nil:
		e.G.BecomeIdle(n)
		e.clearHold(n)
		e.SetFlag(n, assess.FlagNeedsRead, true)
	case o.Err == nil:
		e.Succeeded(n, o)
	default:
		e.failed(n, o)
	}
	e.G.Refresh(n)
	e.G.Wake(n)
}
