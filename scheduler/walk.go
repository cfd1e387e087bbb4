package scheduler

import (
	"fmt"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// walk is a plan that is being executed. Operations begin as they do without a
// plan, once the steps that they come after are done; but outcomes are taken in
// in the order of the steps, as the planner did: one that comes early is held, and so
// is one that the planner took in when an operation was under way that has not begun,
// because something is read that it stands on. So whatever follows from them is what
// followed in the plan.
//
// A walk ends with its last step, or is left when something else happens than
// the plan says. Then what is held is taken in, and all goes on without a plan.
type walk struct {
	h       *Handle
	seq     uint64
	steps   []walkStep
	due     map[Key]int         // the first step of each key that has not begun
	begun   map[*graph.Node]int // steps under way, or held
	waiting map[int][]*op       // for that many steps to be taken in
	settled int                 // how many are
	idle    int                 // the first step that has not begun
	patient int                 // the step for which a timer runs
	left    *Deviation
}

type walkStep struct {
	key  Key
	op   Operation
	to   any // what it brings about
	next int // the next step of the same key, 0 for none
	// after is the last step that must be done before, counted from 1. As
	// outcomes are taken in in order, all others are then.
	after int
	since int // how many outcomes the planner had taken in when it began
	begun bool
	held  *op // its outcome, come early
}

// planned makes the plan again that a transaction is to execute, and refuses if
// it is another one by now.
func (e *engine) planned(t *Txn, h *Handle) (*simulation, error) {
	if h.reverted {
		return nil, nil
	}
	base := t.Base
	if h.twin = e.expects(t); h.twin != nil {
		base, t.Want = h.twin.txn.Base, h.twin.txn.Want // the same, in the order of the plan
	}
	if base.IsZero() {
		return nil, nil
	}
	e.turn()
	sim, err := e.preview(Event{Txn: *t})
	if err == nil {
		err = base.Moved(sim.plan.Base)
	}
	if err != nil && h.twin != nil {
		h.result.Deviation = &Deviation{Step: 1, Why: err.Error()}
		return nil, nil
	}
	return sim, err
}

// setOut begins the walk of a plan.
func (e *engine) setOut(h *Handle, sim *simulation) {
	x := &walk{h: h, seq: e.seq, patient: -1, due: map[Key]int{}, begun: map[*graph.Node]int{}, waiting: map[int][]*op{}}
	x.steps = make([]walkStep, len(sim.plan.Steps))
	for i := len(x.steps) - 1; i >= 0; i-- {
		s := sim.plan.Steps[i]
		x.steps[i] = walkStep{key: s.Key, op: s.Op, to: sim.to[i], since: sim.since[i], next: x.due[s.Key]}
		if n := len(s.After); n > 0 {
			x.steps[i].after = s.After[n-1]
		}
		x.due[s.Key] = i
	}
	h.walk = x
	e.walks = append(e.walks, x)
}

// stepBegun finds the step that an operation is. It reports whether the operation
// waits for its turn.
func (e *engine) stepBegun(o *op) (waits bool) {
	for _, x := range e.walks {
		if x.left == nil && x.begins(o) {
			after := x.steps[x.begun[o.n]].after
			if after <= x.settled {
				return false
			}
			x.waiting[after] = append(x.waiting[after], o)
			return true
		}
	}
	for _, x := range e.walks {
		if i, due := x.due[o.key]; due || o.cause == x.seq {
			what := fmt.Sprintf("%s %s is not in the plan", o.what, o.key)
			if due {
				what = fmt.Sprintf("%s %s was due instead of %s", o.what, o.key, x.steps[i].op)
			}
			if due && x.steps[i].op == o.what {
				what = fmt.Sprintf("what is wanted of %s changed", o.key)
			}
			e.leaveWalk(x, x.settled, what)
		}
	}
	return false
}

func (x *walk) begins(o *op) bool {
	i, due := x.due[o.key]
	if !due || x.steps[i].op != o.what || wishesDiffer(o.kind, o.key, x.steps[i].to, o.to) {
		return false
	}
	if next := x.steps[i].next; next > 0 {
		x.due[o.key] = next
	} else {
		delete(x.due, o.key)
	}
	x.begun[o.n], x.steps[i].begun = i, true
	for x.idle < len(x.steps) && x.steps[x.idle].begun {
		x.idle++
	}
	return true
}

// next is the step that the walk waits for, and whether it is for the outcome of that
// step or for it to begin.
func (x *walk) next() (i int, outcome bool) {
	if x.idle < len(x.steps) && x.steps[x.idle].since <= x.settled {
		return x.idle, false
	}
	return x.settled, true
}

// stepDone takes in, or holds, the outcome of a step. It reports whether there is
// no more to do about it.
func (e *engine) stepDone(o *op) bool {
	for _, x := range e.walks {
		i, ours := x.begun[o.n]
		if !ours || x.left != nil || o.what == OpLook {
			continue
		}
		switch {
		case o.overdue:
			e.leaveWalk(x, i, fmt.Sprintf("%s %s runs past its deadline", o.what, o.key))
			return false
		case o.err != nil:
			e.leaveWalk(x, i, fmt.Sprintf("%s %s failed: %s", o.what, o.key, kv.FirstLine(o.err)))
			return false
		}
		x.steps[i].held = o
		e.advance(x)
		return true
	}
	return false
}

// advance takes in the outcomes whose turn it is.
func (e *engine) advance(x *walk) {
	for x.left == nil && x.settled < len(x.steps) && x.steps[x.settled].held != nil {
		if _, outcome := x.next(); !outcome {
			return
		}
		e.takeIn(x, x.settled)
		x.settled++
		e.think()
		e.ready = append(e.ready, x.waiting[x.settled]...)
		delete(x.waiting, x.settled)
	}
}

func (e *engine) takeIn(x *walk, i int) {
	o := x.steps[i].held
	x.steps[i].held = nil
	delete(x.begun, o.n)
	e.settle(o)
}

// leaveWalk: from step i on it does not go as planned. What is held is taken in
// at the end of the turn, when no thought is under way.
func (e *engine) leaveWalk(x *walk, i int, why string) {
	if x.left != nil {
		return
	}
	x.left = &Deviation{Step: i + 1, Why: why}
}

// followWalks sees to it that no walk waits for what will not come: its next
// step must be under way, or something be read that it may wait for.
func (e *engine) followWalks() {
	for again := len(e.walks) > 0; again; {
		again = false
		for _, x := range e.walks {
			e.followWalk(x)
			if x.left != nil && e.letGo(x) {
				again = true
			}
		}
	}
	on := e.walks[:0]
	for _, x := range e.walks {
		if x.left == nil && x.settled < len(x.steps) {
			on = append(on, x)
			continue
		}
		if x.left != nil {
			e.hist.Deviated(x.seq, x.left)
		}
		x.h.walk, x.h.result.Deviation = nil, x.left
		e.stir(&x.h.waiter)
	}
	clear(e.walks[len(on):])
	e.walks = on
}

func (e *engine) followWalk(x *walk) {
	if x.left != nil || x.settled == len(x.steps) {
		return
	}
	e.advance(x) // what kept an outcome may have begun
	at, outcome := x.next()
	if x.settled == len(x.steps) || outcome {
		return // it is under way
	}
	next := &x.steps[at]
	if e.reading == 0 && len(e.looks) == 0 {
		e.leaveWalk(x, at, fmt.Sprintf("%s %s was not due when its turn came%s", next.op, next.key, e.howItStands(next.key)))
		return
	}
	if x.patient == at {
		return
	}
	x.patient = at
	e.retries.addFunc(e.now.Add(e.opts.Timeout), func() {
		if !next.begun {
			e.leaveWalk(x, at, fmt.Sprintf("%s %s was waited for in vain%s", next.op, next.key, e.howItStands(next.key)))
		}
	})
	e.arm()
}

func (e *engine) howItStands(key Key) string {
	n := e.g.Get(key)
	if n == nil {
		return ""
	}
	s := e.status(n)
	if s.Reason == "" {
		return ": it is " + s.State.String()
	}
	return fmt.Sprintf(": it is %s (%s)", s.State, s.Reason)
}

// letGo takes in all that a walk holds, and lets begin what waits; it tells
// whether anything was held.
func (e *engine) letGo(x *walk) (some bool) {
	for _, after := range slices.Sorted(maps.Keys(x.waiting)) {
		e.ready = append(e.ready, x.waiting[after]...)
	}
	clear(x.waiting)
	for i := range x.steps {
		if x.steps[i].held != nil {
			e.takeIn(x, i)
			some = true
		}
	}
	if some {
		e.think()
	}
	return some
}

// leaveWalks ends all walks.
func (e *engine) leaveWalks(why string) {
	for _, x := range e.walks {
		e.leaveWalk(x, x.settled, why)
	}
}
