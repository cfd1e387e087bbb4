package engine

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/exec"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Engine changes the graph and lets operations begin: the loop owns it. It does
// no I/O: what follows from its decisions goes to the outside.
//
// It is built on floors, of which each knows only those below: the Engine evaluates nodes
// and lets begin; an observer takes in what reads found and how operations ended; an editor
// takes in what is wanted; nodes has what all of these do to a single node; and a recorder
// notes what happened.
type Engine struct {
	observer
	Exec *exec.Executor[*kind.Op]

	making  dueList // nodes due for an operation
	going   dueList // nodes that are due to go
	inFull  bool    // all that is due begins, without a window
	Ops     opPool
	Ready   []*kind.Op          // to hand to the executor at the end of the turn
	Touched []*graph.Node       // changed in this turn
	turns   map[*graph.Node]int // how often each was to stay after all, in this pass
	// patient are the nodes in place that wait for what they lack, since it is about to be made.
	patient map[*graph.Node]bool

	budgets map[budgetID]*budget
	asked   uint64 // how often a turn was asked for in one of them

	heldBacks int // how often something was held back
}

// Halting runs f, in a Try, with halt; it drops what f left undone.
func (e *Engine) Halting(halt func() bool, f func()) {
	e.halt = halt
	f()
	e.halt = nil
	if halt() {
		e.making, e.going, e.turns = dueList{}, dueList{}, nil
	}
}

// observer takes in what reads found and how operations ended.
type observer struct{ editor }

// editor takes in what is wanted.
type editor struct {
	nodes
	refused map[*graph.Node][]*graph.Node // who would derive a key that another has
	// takenBack are keys that may go however many they are, by how many times that is said.
	takenBack map[kv.Key]int
	// goneEarly are the keys that their owners took back before leftovers were judged.
	goneEarly map[kv.Key]bool
	// halt, if set, is asked before each step of the work. Once it returns true the work ends
	// half done, so only a Try can have it.
	halt func() bool
}

// New makes an engine; Out must be set before it is used.
func New(as *assess.Assessor, set Settings, hist *history.Log, now time.Time, wakeAt func(time.Time), logf func(slog.Level, string, ...any)) *Engine {
	e := &Engine{}
	e.Assessor, e.Hist, e.Now, e.provisional = as, hist, now, map[uint64]*history.Record{}
	e.Set, e.wakeAt, e.logf, e.blocked = set, wakeAt, logf, map[kv.Key]map[*graph.Node]bool{}
	e.patient = map[*graph.Node]bool{}
	e.refused, e.tallies = map[*graph.Node][]*graph.Node{}, map[uint64]*tally{}
	return e
}

// MaxSpare is the room that a list keeps for the next turn.
const MaxSpare = 1 << 14

// awaitRead has a node evaluated again when what it waits for was read.
func (e *Engine) awaitRead(n *graph.Node, a assess.Assessment) {
	if a.Read != nil {
		e.Out.AfterRead(a.Read, n)
	}
}

// evaluate decides about one node.
func (e *Engine) evaluate(n *graph.Node) {
	e.Out.Touch(n)
	for b := n.Base; b != nil; b = b.Base {
		e.Out.Touch(b) // its state is that of all that it derives
	}
	k := kind.Of(n)
	if k == nil {
		e.endTurn(n)
		e.detachChildren(n)
		e.G.Drop(n)
		return
	}
	if k.Derive != nil {
		e.syncDerived(n, k)
	}
	if k.Interest != nil {
		e.Out.TellInterest(n, k)
	}
	if n.Needs() == graph.Missing {
		e.lapse(n)
	}
	if n.Busy() {
		return
	}
	if n.Presence == graph.Absent && n.Needs() == graph.Missing {
		e.clearHold(n)
		e.Unleave(n)
		if n.X != nil && n.X.Refused {
			e.accept(n) // it was refused with what it needed then
		}
	}
	if n.Presence == graph.Present && !n.Foreign {
		e.setStale(n, n.Outdated())
	}
	frozen := e.freeze(n)
	e.Out.DampFlaps(n)
	a := e.takeTurn(n, e.Assess(n))
	e.awaitRead(n, a)
	if n.Presence == graph.Present && n.Needs() == graph.Missing && !n.Foreign && a.Blocker == assess.OnNeeds && e.LacksOnlyComing(n) {
		e.setPatient(n, true)
	}
	begins := a.Leaving && !n.Leaving
	if begins && n.Dependents > 0 {
		e.G.Wake(n) // once more, when those that can move off it have done so
	}
	if n.Leaving && !a.Leaving && e.oscillates(n) {
		a = assess.Assessment{Leaving: true}
	}
	e.G.SetLeaving(n, a.Leaving)
	if frozen { // not before: nothing may come to depend on what is not paused any more, and leaves
		e.G.Refresh(n)
	}
	if begins && len(e.budgets) > 0 {
		e.wakeGoing(n)
	}
	if assess.Has(n, assess.FlagUntried) && n.X != nil {
		for _, c := range n.X.Children {
			if c.Goal() == nil && c.Presence != graph.Absent {
				e.G.Wake(c) // whether it stays for n depends on what becomes of n
			}
		}
	}
	switch a.Due {
	case assess.DoNothing:
		if a.Same {
			e.noteSame(n)
		}
		if n.Presence == graph.Absent && !n.Wanted() {
			e.forget(n)
		}
	case assess.DoLook:
		e.Out.QueueLook(n)
	default:
		if !assess.Has(n, assess.FlagDue) {
			e.SetFlag(n, assess.FlagDue, true)
			e.dueOf(n).push(n)
		}
	}
}

// setPatient notes whether a node waits for what it lacks.
func (e *Engine) setPatient(n *graph.Node, yes bool) {
	if e.patient[n] == yes {
		return
	}
	set := func(yes bool) {
		if e.patient[n] = yes; !yes {
			delete(e.patient, n)
		}
	}
	e.G.OnUndo(func() { set(!yes) })
	set(yes)
}

// wakePatient wakes the patient nodes that lack something that is no longer about to be made. It
// reports whether there are any.
func (e *Engine) wakePatient() (some bool) {
	for _, n := range slices.SortedFunc(maps.Keys(e.patient), assess.ByKey) {
		if !n.Dropped() && n.Presence == graph.Present && n.Needs() == graph.Missing {
			if e.LacksOnlyComing(n) {
				continue
			}
			e.G.Wake(n)
			some = true
		}
		e.setPatient(n, false)
	}
	return some
}

const maxTurns = 3

// oscillates reports whether the node was to go and to stay in turn. Each may follow
// from the other where values that are replaced at once depend on each other;
// then it goes, or there would be no end.
func (e *Engine) oscillates(n *graph.Node) bool {
	if n.Presence == graph.Absent || n.Goal() == nil {
		return false
	}
	if e.turns == nil {
		e.turns = map[*graph.Node]int{}
	}
	e.turns[n]++
	return e.turns[n] > maxTurns
}

// forget drops a node that is neither wanted nor there nor needed.
func (e *Engine) forget(n *graph.Node) {
	if k := kind.Of(n); k != nil && k.Look.Running {
		e.Out.AfterRead(k, n) // it may show the node as it was
		return
	}
	e.unhold(n) // it has gone by itself
	base := n.Base
	if !e.G.Drop(n) || base == nil {
		return
	}
	if base.X != nil {
		base.X.Children = remove(base.X.Children, n)
	}
	e.G.Wake(base)
}

func remove(ns []*graph.Node, n *graph.Node) []*graph.Node {
	out := make([]*graph.Node, 0, len(ns))
	for _, m := range ns {
		if m != n {
			out = append(out, m)
		}
	}
	return out
}

// TellInterest tells the kind of a node whether somebody needs it now.
func (e *Engine) TellInterest(n *graph.Node, k *kind.Kind) {
	needed := len(n.In) > 0 || len(e.blocked[n.Key]) > 0
	if needed == assess.Has(n, assess.FlagInterested) {
		return
	}
	e.SetFlag(n, assess.FlagInterested, needed)
	k.Interest(n.Key, needed)
	if !needed && n.Presence == graph.Unknown && !n.Busy() {
		e.G.SetActual(n, graph.ActualState{}, true)
		return
	}
	e.markForRead(n) // when nobody needs it nobody tells when it goes: the kind says if it still looks
}

// start begins the operation that a node is due for.
func (e *Engine) start(n *graph.Node, k *kind.Kind, a assess.Assessment) {
	o := e.Ops.get()
	o.Kind, o.Node, o.Key, o.What = k, n, n.Key, a.Due.Operation()
	o.From, o.To, o.Meta, o.Gen, o.Cause = n.Actual, n.Goal(), n.Meta, n.Gen, n.Cause
	if n.Via != n {
		o.Via = n.Via
	}
	o.Foreign = n.Foreign
	switch a.Due {
	case assess.DoRelease:
		o.Release, o.To = true, n.X.Found
	case assess.DoDelete:
		o.To = nil
		if o.From == nil && n.X != nil {
			o.From = n.X.LastTo
		}
	}
	e.Out.Begin(o, a)
}
