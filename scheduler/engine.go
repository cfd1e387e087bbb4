package scheduler

import (
	"log/slog"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/exec"
)

// engine changes the graph and lets operations begin: the loop owns it. It does
// no I/O: what follows from its decisions goes to the outside.
type engine struct {
	*assessor
	set  settings
	exec *exec.Executor[*op]
	hist *history.Log

	making  dueList // nodes due for an operation
	going   dueList // nodes that are due to go
	inFull  bool    // all that is due begins, without a window
	ops     opPool
	ready   []*op         // to hand to the executor at the end of the turn
	touched []*graph.Node // changed in this turn
	// recheckAll: something has changed that shows at no node.
	recheckAll bool
	turns      map[*graph.Node]int // how often each was to stay after all, in this thought
	stamp      uint64              // counts operations and looks, to tell stale reads
	seq        uint64              // numbers transactions
	began      uint64              // the number of the last one of an earlier run

	unkept  map[uint64]*Record // of looks that nothing has come of yet
	retries retryQueue
	blocked map[Key]map[*graph.Node]bool  // whose operations wait for a key
	refused map[*graph.Node][]*graph.Node // who would derive a key that another has
	out     outside
	now     time.Time

	// What the engine asks of the loop around it.
	wakeAt func(at time.Time)
	logf   func(level slog.Level, msg string, args ...any)
}

// settings are those of the scheduler's options that the engine acts by.
type settings struct {
	retryMin, retryMax time.Duration
	jitter             float64
	timeout            time.Duration // of a step of a plan that is waited for
	rand               func() float64
}

// newEngine makes an engine; out must be set before it is used.
func newEngine(as *assessor, set settings, hist *history.Log, now time.Time, wakeAt func(time.Time), logf func(slog.Level, string, ...any)) *engine {
	return &engine{assessor: as, set: set, hist: hist, now: now, wakeAt: wakeAt, logf: logf,
		unkept: map[uint64]*Record{}, refused: map[*graph.Node][]*graph.Node{}, blocked: map[Key]map[*graph.Node]bool{}}
}

const maxSpare = 1 << 14 // room that a list keeps for the next turn

func (e *engine) setFlag(n *graph.Node, flag uint16, on bool) {
	if has(n, flag) == on {
		return
	}
	e.g.Touch(n)
	if on {
		n.Flags |= flag
	} else {
		n.Flags &^= flag
	}
}

// touch notes that something about the node changed in this turn.
func (e *engine) touch(n *graph.Node) {
	e.out.moved(n)
}

// under runs f with the cause that it, and all it wakes, is put down to.
func (e *engine) under(cause uint64, via *graph.Node, f func()) {
	c, v := e.g.Cause, e.g.Via
	e.g.Cause, e.g.Via = cause, via
	f()
	e.g.Cause, e.g.Via = c, v
}

// awaitRead has a node considered again when what it waits for was read.
func (e *engine) awaitRead(n *graph.Node, a assessment) {
	if a.read != nil {
		e.out.afterRead(a.read, n)
	}
}

// consider decides about one node.
func (e *engine) consider(n *graph.Node) {
	e.touch(n)
	for b := n.Base; b != nil; b = b.Base {
		e.touch(b) // its state is that of all that it derives
	}
	k := kindOf(n)
	if k == nil {
		e.disown(n)
		e.g.Drop(n)
		return
	}
	if k.derive != nil {
		e.syncDerived(n, k)
	}
	if k.interest != nil {
		e.out.tellInterest(n, k)
	}
	if n.Needs() == graph.Missing {
		e.lapse(n)
	}
	if n.Moving {
		return
	}
	if n.Presence == graph.Absent && n.Needs() == graph.Missing {
		e.clearHold(n)
		e.unleave(n)
		if n.X != nil && n.X.Refused {
			e.accept(n) // it was refused with what it needed then
		}
	}
	if n.Presence == graph.Present && !n.Foreign {
		e.setStale(n, n.Outdated())
	}
	e.freeze(n)
	e.out.calmDown(n)
	a := e.assess(n)
	e.awaitRead(n, a)
	if a.leaving && !n.Leaving && n.Standing > 0 {
		e.g.Wake(n) // once more, when those that can move off it have done so
	}
	if n.Leaving && !a.leaving && e.wavers(n) {
		a = assessment{leaving: true}
	}
	e.g.SetLeaving(n, a.leaving)
	if has(n, flagUntried) && n.X != nil {
		for _, c := range n.X.Children {
			if c.Goal() == nil && c.Presence != graph.Absent {
				e.g.Wake(c) // whether it stays for n depends on what becomes of n
			}
		}
	}
	switch a.due {
	case doNothing:
		if a.same {
			e.noteSame(n)
		}
		if n.Presence == graph.Absent && !n.Wanted() {
			e.forget(n)
		}
	case doLook:
		e.out.queueLook(n)
	default:
		if !has(n, flagDue) {
			e.setFlag(n, flagDue, true)
			e.dueOf(n).push(n)
		}
	}
}

// setStale notes whether a node was built with something that has changed.
func (e *engine) setStale(n *graph.Node, yes bool) {
	e.setFlag(n, flagStale, yes)
	if yes {
		e.setFlag(n, flagSame, false)
	}
}

const maxTurns = 3

// wavers reports whether the node was to go and to stay in turn. Each may follow
// from the other where values that are replaced at once stand on each other;
// then it goes, or there would be no end.
func (e *engine) wavers(n *graph.Node) bool {
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
func (e *engine) forget(n *graph.Node) {
	if k := kindOf(n); k != nil && k.look.running {
		e.out.afterRead(k, n) // it may show the node as it was
		return
	}
	base := n.Base
	if !e.g.Drop(n) || base == nil {
		return
	}
	if base.X != nil {
		base.X.Children = remove(base.X.Children, n)
	}
	e.g.Wake(base)
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

func (e *engine) tellInterest(n *graph.Node, k *kind) {
	needed := len(n.In) > 0 || len(e.blocked[n.Key]) > 0
	if needed == has(n, flagInterested) {
		return
	}
	e.setFlag(n, flagInterested, needed)
	k.interest(n.Key, needed)
	if !needed && n.Presence == graph.Unknown && !n.Moving {
		e.g.SetWorld(n, graph.World{}, true)
		return
	}
	e.suspect(n) // when nobody needs it nobody tells when it goes: the kind says if it still looks
}

// start begins the operation that a node is due for.
func (e *engine) start(n *graph.Node, k *kind, a assessment) {
	o := e.ops.get()
	o.kind, o.n, o.key, o.what = k, n, n.Key, a.due.operation()
	o.from, o.to, o.meta, o.gen, o.cause = n.Actual, n.Goal(), n.Meta, n.Gen, n.Cause
	if n.Via != n {
		o.via = n.Via
	}
	o.foreign = n.Foreign
	switch a.due {
	case doRelease:
		o.release, o.to = true, n.X.Found
	case doDelete:
		o.to = nil
		if o.from == nil && n.X != nil {
			o.from = n.X.LastTo
		}
	}
	e.out.begin(o, a)
}
