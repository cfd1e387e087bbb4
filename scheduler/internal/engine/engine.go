package engine

import (
	"log/slog"
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
type Engine struct {
	*assess.Assessor
	Set  Settings
	Exec *exec.Executor[*kind.Op]
	Hist *history.Log

	making  dueList // nodes due for an operation
	going   dueList // nodes that are due to go
	inFull  bool    // all that is due begins, without a window
	Ops     opPool
	Ready   []*kind.Op    // to hand to the executor at the end of the turn
	Touched []*graph.Node // changed in this turn
	// recheckAll: something has changed that shows at no node.
	RecheckAll bool
	turns      map[*graph.Node]int // how often each was to stay after all, in this thought
	stamp      uint64              // counts operations and looks, to tell stale reads
	Seq        uint64              // numbers transactions
	Began      uint64              // the number of the last one of an earlier run

	provisional map[uint64]*history.Record // of looks that nothing has come of yet
	Retries     retryQueue
	blocked     map[kv.Key]map[*graph.Node]bool // whose operations wait for a key
	refused     map[*graph.Node][]*graph.Node   // who would derive a key that another has
	Out         Outside
	Now         time.Time

	// What the engine asks of the loop around it.
	wakeAt func(at time.Time)
	logf   func(level slog.Level, msg string, args ...any)
}

// Settings are those of the scheduler's options that the engine acts by.
type Settings struct {
	RetryMin, RetryMax time.Duration
	Jitter             float64
	Timeout            time.Duration // of a step of a plan that is waited for
	Rand               func() float64
}

// New makes an engine; out must be set before it is used.
func New(as *assess.Assessor, set Settings, hist *history.Log, now time.Time, wakeAt func(time.Time), logf func(slog.Level, string, ...any)) *Engine {
	return &Engine{Assessor: as, Set: set, Hist: hist, Now: now, wakeAt: wakeAt, logf: logf,
		provisional: map[uint64]*history.Record{}, refused: map[*graph.Node][]*graph.Node{}, blocked: map[kv.Key]map[*graph.Node]bool{}}
}

// MaxSpare is the room that a list keeps for the next turn.
const MaxSpare = 1 << 14

// SetFlag sets or clears a flag of a node.
func (e *Engine) SetFlag(n *graph.Node, flag uint16, on bool) {
	if assess.Has(n, flag) == on {
		return
	}
	e.G.Touch(n)
	if on {
		n.Flags |= flag
	} else {
		n.Flags &^= flag
	}
}

// touch notes that something about the node changed in this turn.
func (e *Engine) touch(n *graph.Node) {
	e.Out.Moved(n)
}

// CausedBy runs f with the cause that it, and all it wakes, is put down to.
func (e *Engine) CausedBy(cause uint64, via *graph.Node, f func()) {
	c, v := e.G.Cause, e.G.Via
	e.G.Cause, e.G.Via = cause, via
	f()
	e.G.Cause, e.G.Via = c, v
}

// awaitRead has a node considered again when what it waits for was read.
func (e *Engine) awaitRead(n *graph.Node, a assess.Assessment) {
	if a.Read != nil {
		e.Out.AfterRead(a.Read, n)
	}
}

// evaluate decides about one node.
func (e *Engine) evaluate(n *graph.Node) {
	e.touch(n)
	for b := n.Base; b != nil; b = b.Base {
		e.touch(b) // its state is that of all that it derives
	}
	k := kind.Of(n)
	if k == nil {
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
	if n.Moving {
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
	e.freeze(n)
	e.Out.DampFlaps(n)
	a := e.Assess(n)
	e.awaitRead(n, a)
	if a.Leaving && !n.Leaving && n.Standing > 0 {
		e.G.Wake(n) // once more, when those that can move off it have done so
	}
	if n.Leaving && !a.Leaving && e.oscillates(n) {
		a = assess.Assessment{Leaving: true}
	}
	e.G.SetLeaving(n, a.Leaving)
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

// setStale notes whether a node was built with something that has changed.
func (e *Engine) setStale(n *graph.Node, yes bool) {
	e.SetFlag(n, assess.FlagStale, yes)
	if yes {
		e.SetFlag(n, assess.FlagSame, false)
	}
}

const maxTurns = 3

// oscillates reports whether the node was to go and to stay in turn. Each may follow
// from the other where values that are replaced at once stand on each other;
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
	if !needed && n.Presence == graph.Unknown && !n.Moving {
		e.G.SetWorld(n, graph.World{}, true)
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
