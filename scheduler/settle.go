package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

const repairWindow = time.Minute

// settle takes the outcome of an operation into the graph.
func (e *engine) settle(o *op) {
	if o.what == OpLook {
		e.under(o.cause, nil, func() { e.looked(o) })
		return
	}
	n := o.n
	e.touch(n)
	e.g.Unuse(n) // also when it is overdue: who hangs holds up nobody for longer than that
	if o.overdue {
		e.under(o.cause, n, func() { e.overdue(n, o) })
		return
	}
	if o.what == OpDelete && o.err != nil && kv.Gone(o.err) {
		o.err = nil
	}
	e.record(o)
	if kindOf(n) != o.kind {
		e.orphaned(n)
		return
	}
	if n.X != nil && n.X.Overdue {
		e.under(o.cause, n, func() { e.late(n, o) })
		return
	}
	e.setFlag(n, flagRunning, false)
	e.stamp++
	n.Stamp = e.stamp
	e.under(o.cause, n, func() {
		if o.err != nil {
			e.failed(n, o)
		} else {
			e.succeeded(n, o)
		}
		e.lookAgain(n)
	})
	e.g.Wake(n)
}

func (e *engine) succeeded(n *graph.Node, o *op) {
	e.made(n, o)
	e.clearHold(n)
	e.unleave(n)
	repaired := has(n, flagDrifted)
	e.setFlag(n, flagDrifted, false)
	e.setFlag(n, flagStale, false)
	if o.what != OpUpdate { // what was not read yet may stand on it still
		e.setFlag(n, flagAdopted, false)
	}
	n.Moving = false
	if o.what == OpDelete {
		e.setTaken(n, false, nil)
		e.applied(n, o.kind, nil)
		e.setFlag(n, flagSame, false)
		e.g.SetWorld(n, graph.World{}, false)
		e.out.unblock(n)
		return
	}
	if o.release {
		e.gaveBack(n, o.to)
		return
	}
	if o.what == OpCreate {
		e.setTaken(n, o.foreign && o.kind.release != nil, o.from)
	}
	if o.what == OpCreate || repaired {
		e.out.mayHaveGone(n) // what was found standing on it since may have been about to go with it
	}
	defer e.retryAbove(n)
	e.applied(n, o.kind, o.to)
	w := graph.World{Presence: graph.Present, Actual: o.to, Meta: o.meta}
	if n.Gen == o.gen && n.Goal() != nil {
		if n.X != nil && n.X.Refused { // this time it was taken
			e.accept(n)
		}
		e.g.AdoptNeeds(n)
		e.rebuild(e.g.SetWorld(n, w, false))
		e.reached(n)
		return
	}
	e.g.Made(n)
	if n.Goal() != nil {
		e.g.Change(n, o.to) // something else is wanted by now
	}
	e.setFlag(n, flagSame, false)
	e.rebuild(e.g.SetWorld(n, w, false))
	e.noteSame(n)
}

// rebuild: what others were made with has changed. They are made anew, those
// that are still there.
func (e *engine) rebuild(stale []graph.Stale) {
	for _, s := range stale {
		if s.Sure {
			e.setStale(s.Node, true)
		}
		e.g.Wake(s.Node)
	}
}

func (e *engine) failed(n *graph.Node, o *op) {
	if o.what == OpUpdate && kv.Gone(o.err) {
		n.Moving = false
		e.seenGone(n)
		return
	}
	var invalid *InvalidError
	if errors.As(o.err, &invalid) && n.Gen == o.gen && o.what != OpDelete {
		e.g.Extra(n).Invalid, n.X.Refused = o.err, true
		n.X.Asked = o.to
	}
	if n.Gen == o.gen || o.what == OpDelete {
		e.fail(n, o.what, o.err)
		e.g.Extra(n).LastTo = o.to
		if o.what == OpDelete {
			n.X.LastTo = o.from
		}
	}
	if o.what == OpUpdate && n.X != nil && n.X.Was == nil && n.Goal() != nil {
		e.g.Change(n, o.from)
	}
	n.Moving = false
	e.applied(n, o.kind, nil)
	e.setFlag(n, flagSame, false)
	if kindOf(n) != nil && kindOf(n).retrieve != nil {
		e.setFlag(n, flagSuspect, true) // see at once what it left behind
	}
	e.g.SetWorld(n, graph.World{Presence: graph.Unknown, Actual: n.Actual, Meta: n.Meta}, false)
}

// overdue: an operation ran past its deadline and may still do anything.
func (e *engine) overdue(n *graph.Node, o *op) {
	x := e.g.Extra(n)
	x.Overdue = true
	x.Err = o.overdueError()
	e.applied(n, kindOf(n), nil)
	e.g.Wake(n)
	n.Moving = true
	e.g.SetWorld(n, graph.World{Presence: graph.Unknown, Actual: n.Actual, Meta: n.Meta}, false)
}

// late: an operation that was given up has ended after all. Whatever it says,
// the world is read.
func (e *engine) late(n *graph.Node, o *op) {
	x := e.g.Extra(n)
	x.Overdue = false
	n.Peers(e.g.Wake)
	e.setFlag(n, flagRunning, false)
	n.Moving = false
	switch {
	case kindOf(n) != nil && kindOf(n).retrieve != nil:
		e.clearHold(n)
		e.setFlag(n, flagSuspect, true)
	case o.err == nil:
		e.succeeded(n, o)
	default:
		e.failed(n, o)
	}
	e.g.Refresh(n)
	e.g.Wake(n)
}

// fail notes an error and when to try again.
func (e *engine) fail(n *graph.Node, what Operation, err error) {
	x := e.g.Extra(n)
	x.Err, x.LastOp = err, uint8(what)
	x.Attempts++
	var oe *OpError
	var invalid *InvalidError
	r := retriesOf(n)
	delay := e.delay(x.Attempts, r)
	switch {
	case errors.As(err, &invalid):
		e.giveUp(n)
		return
	case x.Lapsed && (what == OpCreate || what == OpUpdate):
		x.Attempts-- // it says nothing of what comes when its needs are back
		e.logFailure(n, what, err, 0)
		return
	case errors.As(err, &oe) && oe.Terminal:
		e.giveUp(n)
		e.logFailure(n, what, err, 0)
		return
	case r.Attempts > 0 && x.Attempts >= r.Attempts:
		x.Err = fmt.Errorf("%w; all %d attempts are used up", err, r.Attempts)
		e.giveUp(n)
		e.logFailure(n, what, err, 0)
		return
	case errors.As(err, &oe) && oe.After > 0:
		delay = oe.After
	case errors.As(err, &oe) && oe.On != "":
		delay = e.block(n, oe.On, delay)
	}
	e.hold(n, delay)
	e.logFailure(n, what, err, delay)
}

// giveUp tries no more until something changes. What the node was about to become it
// does not become.
func (e *engine) giveUp(n *graph.Node) {
	e.g.Extra(n).NextTry = 0
	e.setFlag(n, flagHeld, true)
	e.g.Refute(n, true)
}

func (e *engine) logFailure(n *graph.Node, what Operation, err error, next time.Duration) {
	e.logf(slog.LevelWarn, "operation failed", "op", what.String(), "key", string(n.Key), "error", err, "next_try_in", next)
}
