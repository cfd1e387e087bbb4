package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/explain"
	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// planRun is a plan that is being executed. Operations begin as they do without a
// plan, once the steps that they come after are done; but outcomes are taken in
// in the order of the steps, as the planner did: one that comes early is held, and so
// is one that the planner took in when an operation was under way that has not begun,
// because something is read that it depends on. So whatever follows from them is what
// followed in the plan.
//
// A run ends with its last step, or is left when something else happens than
// the plan says. Then what is held is taken in, and all goes on without a plan.
type planRun struct {
	ended   func(*kv.Deviation) // the plan was executed, or left
	seq     uint64
	seen    bool // by somebody, who wants it executed as it stands
	steps   []runStep
	due     map[kv.Key]int      // the first step of each key that has not begun
	begun   map[*graph.Node]int // steps under way, or held
	waiting map[int][]*kind.Op  // for that many steps to be taken in
	settled int                 // how many are
	idle    int                 // the first step that has not begun
	patient int                 // the step for which a timer runs
	held    int                 // outcomes that have come early
	timed   bool                // a timer runs for what is held
	left    *kv.Deviation
}

type runStep struct {
	key  kv.Key
	op   kv.Operation
	to   any // what it brings about
	next int // the next step of the same key, 0 for none
	// after is the last step that must be done before, counted from 1. As
	// outcomes are taken in in order, all others are then.
	after int
	since int // how many outcomes the planner had taken in when it began
	begun bool
	held  *kind.Op // its outcome, come early
}

// maxHeld is how long a plan that nobody has seen waits for an outcome while others are held for
// it. An operation that hangs must not delay for long what does not need it.
const maxHeld = 5 * time.Second

// Runs are the plans that are being executed.
type Runs struct {
	e   *engine.Engine
	x   *explain.Explainer
	all []*planRun
}

// NewRuns makes an empty list of plans that the engine executes.
func NewRuns(e *engine.Engine, x *explain.Explainer) *Runs { return &Runs{e: e, x: x} }

// Any reports whether a plan is being executed.
func (rs *Runs) Any() bool { return len(rs.all) > 0 }

// Start begins to execute the plan of a transaction, which somebody has seen or not; ended hears
// when that is over.
func (rs *Runs) Start(seq uint64, sim *Simulation, seen bool, ended func(*kv.Deviation)) {
	x := &planRun{ended: ended, seq: seq, seen: seen, patient: -1, due: map[kv.Key]int{}, begun: map[*graph.Node]int{}, waiting: map[int][]*kind.Op{}}
	x.steps = make([]runStep, len(sim.Plan.Steps))
	for i := len(x.steps) - 1; i >= 0; i-- {
		s := sim.Plan.Steps[i]
		x.steps[i] = runStep{key: s.Key, op: s.Op, to: sim.to[i], since: sim.since[i], next: x.due[s.Key]}
		if n := len(s.After); n > 0 {
			x.steps[i].after = s.After[n-1]
		}
		x.due[s.Key] = i
	}
	rs.all = append(rs.all, x)
}

// SeenToDisrupt reports whether a step on a key is still to begin that somebody has seen.
func (rs *Runs) SeenToDisrupt(k kv.Key) bool {
	return slices.ContainsFunc(rs.all, func(x *planRun) bool { _, due := x.due[k]; return due && x.seen && x.left == nil })
}

// Begin finds the step that an operation is. It reports whether the operation
// waits for its turn.
func (rs *Runs) Begin(o *kind.Op) (waits bool) {
	for _, x := range rs.all {
		if x.left == nil && x.begins(o) {
			after := x.steps[x.begun[o.Node]].after
			if after <= x.settled {
				return false
			}
			x.waiting[after] = append(x.waiting[after], o)
			return true
		}
	}
	for _, x := range rs.all {
		if i, due := x.due[o.Key]; due || o.Cause == x.seq {
			what := fmt.Sprintf("%s %s is not in the plan", o.What, o.Key)
			if due {
				what = fmt.Sprintf("%s %s was due instead of %s", o.What, o.Key, x.steps[i].op)
			}
			if due && x.steps[i].op == o.What {
				what = fmt.Sprintf("what is wanted of %s changed", o.Key)
			}
			rs.leave(x, x.settled, what)
		}
	}
	return false
}

func (x *planRun) begins(o *kind.Op) bool {
	i, due := x.due[o.Key]
	if !due || x.steps[i].op != o.What || kind.DesiredDiffer(o.Kind, o.Key, x.steps[i].to, o.To) {
		return false
	}
	if next := x.steps[i].next; next > 0 {
		x.due[o.Key] = next
	} else {
		delete(x.due, o.Key)
	}
	x.begun[o.Node], x.steps[i].begun = i, true
	for x.idle < len(x.steps) && x.steps[x.idle].begun {
		x.idle++
	}
	return true
}

// next is the step that the run waits for, and whether it is for the outcome of that
// step or for it to begin.
func (x *planRun) next() (i int, outcome bool) {
	if x.idle < len(x.steps) && x.steps[x.idle].since <= x.settled {
		return x.idle, false
	}
	return x.settled, true
}

// Done takes in, or holds, the outcome of a step. It reports whether there is
// no more to do about it.
func (rs *Runs) Done(o *kind.Op) bool {
	for _, x := range rs.all {
		i, ours := x.begun[o.Node]
		if !ours || x.left != nil {
			continue
		}
		switch {
		case o.PastDeadline:
			rs.leave(x, i, fmt.Sprintf("%s %s runs past its deadline", o.What, o.Key))
			return false
		case o.Err != nil:
			rs.leave(x, i, fmt.Sprintf("%s %s failed: %s", o.What, o.Key, kv.FirstLine(o.Err)))
			return false
		}
		x.steps[i].held = o
		x.held++
		rs.advance(x)
		return true
	}
	return false
}

// advance takes in the outcomes whose turn it is.
func (rs *Runs) advance(x *planRun) {
	for x.left == nil && x.settled < len(x.steps) && x.steps[x.settled].held != nil {
		if _, outcome := x.next(); !outcome {
			return
		}
		rs.takeIn(x, x.settled)
		x.settled++
		rs.e.SettleDirty()
		rs.e.Ready = append(rs.e.Ready, x.waiting[x.settled]...)
		delete(x.waiting, x.settled)
	}
}

func (rs *Runs) takeIn(x *planRun, i int) {
	o := x.steps[i].held
	x.steps[i].held = nil
	x.held--
	delete(x.begun, o.Node)
	rs.e.Settle(o)
}

// leave: from step i on it does not go as planned. What is held is taken in
// at the end of the turn, when nothing is being evaluated.
func (rs *Runs) leave(x *planRun, i int, why string) {
	if x.left != nil {
		return
	}
	x.left = &kv.Deviation{Step: i + 1, Why: why}
}

// Follow sees to it that no run waits for what will not come: its next
// step must be under way, or something be read that it may wait for.
func (rs *Runs) Follow() {
	for again := len(rs.all) > 0; again; {
		again = false
		for _, x := range rs.all {
			rs.followOne(x)
			if x.left != nil && rs.letGo(x) {
				again = true
			}
		}
	}
	on := rs.all[:0]
	for _, x := range rs.all {
		if x.left == nil && x.settled < len(x.steps) {
			on = append(on, x)
			continue
		}
		if x.left != nil && x.seen {
			rs.e.Hist.Deviated(x.seq, x.left)
		}
		x.ended(x.left)
	}
	clear(rs.all[len(on):])
	rs.all = on
}

func (rs *Runs) followOne(x *planRun) {
	if x.left != nil || x.settled == len(x.steps) {
		return
	}
	rs.advance(x) // what kept an outcome may have begun
	rs.limitHeld(x)
	at, outcome := x.next()
	if x.settled == len(x.steps) || outcome {
		return // it is under way
	}
	next := &x.steps[at]
	if rs.e.Reading == 0 && len(rs.e.Looks) == 0 {
		rs.leave(x, at, fmt.Sprintf("%s %s was not due when its turn came%s", next.op, next.key, rs.howItStands(next.key)))
		return
	}
	if x.patient == at {
		return
	}
	x.patient = at
	rs.e.Retries.AddFunc(rs.e.Now.Add(rs.e.Set.Timeout), func() {
		if !next.begun {
			rs.leave(x, at, fmt.Sprintf("%s %s was waited for in vain%s", next.op, next.key, rs.howItStands(next.key)))
		}
	})
	rs.e.Arm()
}

// limitHeld leaves a plan that nobody has seen once nothing was taken in for too long.
func (rs *Runs) limitHeld(x *planRun) {
	if x.seen || x.timed || !x.delays() {
		return
	}
	x.timed = true
	at := x.settled
	rs.e.Retries.AddFunc(rs.e.Now.Add(maxHeld), func() {
		x.timed = false
		if x.delays() && x.settled == at {
			step := &x.steps[at]
			rs.leave(x, at, fmt.Sprintf("%s %s takes longer than %v while others wait", step.op, step.key, maxHeld))
		}
	})
	rs.e.Arm()
}

// delays reports whether outcomes, or operations, wait for their turn.
func (x *planRun) delays() bool { return x.held > 0 || len(x.waiting) > 0 }

func (rs *Runs) howItStands(key kv.Key) string {
	n := rs.e.G.Get(key)
	if n == nil {
		return ""
	}
	s := rs.x.Status(n)
	if s.Reason == "" {
		return ": it is " + s.State.String()
	}
	return fmt.Sprintf(": it is %s (%s)", s.State, s.Reason)
}

// letGo takes in all that a run holds, and lets begin what waits; it tells
// whether anything was held.
func (rs *Runs) letGo(x *planRun) (some bool) {
	for _, after := range slices.Sorted(maps.Keys(x.waiting)) {
		rs.e.Ready = append(rs.e.Ready, x.waiting[after]...)
	}
	clear(x.waiting)
	for i := range x.steps {
		if x.steps[i].held != nil {
			rs.takeIn(x, i)
			some = true
		}
	}
	if some {
		rs.e.SettleDirty()
	}
	return some
}

// LeaveAll ends all runs.
func (rs *Runs) LeaveAll(why string) {
	for _, x := range rs.all {
		rs.leave(x, x.settled, why)
	}
}
