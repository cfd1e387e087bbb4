package scheduler

import (
	"time"

	"github.com/plumb-net/plumb/scheduler/explain"
	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/plan"
)

// loop is the engine with those who follow it: who waits, who watches, and the plans that
// are being executed. One goroutine at a time runs it, see [Scheduler.Run].
type loop struct {
	*engine.Engine
	opts      Options
	explainer *explain.Explainer
	planner   *plan.Planner
	runs      *plan.Runs

	waiters   []*waiter
	toRecheck []*waiter // to check at the end of the turn
	places    places
	syncing   []*synced            // who waits for sources or kinds
	lookers   map[uint64]*Handle   // of transactions that look, by their number
	toldBusy  map[*graph.Node]bool // to watchers, which hear when they are not any more
	watchers  []*Watcher
	revision  uint64   // of the last change of a status
	changes   []change // those that a watcher has not read, by their revisions
	// fewChanges is how many changes may be there before void ones are dropped.
	fewChanges int
	expected   []*Handle // of transactions that sources will submit
	running    bool      // Run has begun
	queued     int       // inputs that this round has still to take
	inbox      func(input)
}

var _ engine.Outside = (*loop)(nil)

func newLoop(e *engine.Engine, o Options, inbox func(input)) *loop {
	x := explain.New(e.Assessor)
	l := &loop{Engine: e, opts: o, explainer: x, planner: plan.NewPlanner(e, x), runs: plan.NewRuns(e, x), places: newPlaces(),
		lookers: map[uint64]*Handle{}, toldBusy: map[*graph.Node]bool{}, inbox: inbox}
	e.Out = l
	return l
}

// Begin lets an operation begin, unless it waits for its turn in a plan.
func (l *loop) Begin(o *kind.Op, a assess.Assessment) {
	l.Engine.Begin(o, a)
	if l.opts.Log != nil {
		l.Tally(o)
	}
	o.Due = l.Now
	if !l.runs.Begin(o) {
		l.Ready = graph.Push(l.Ready, o)
	}
}

// Full: where a plan is executed the order of operations is counted.
func (l *loop) Full() bool { return l.runs.Any() }

// MayDisrupt: a plan that somebody has seen goes in its own order and at once.
func (l *loop) MayDisrupt(n *graph.Node) bool {
	return l.runs.SeenToDisrupt(n.Key) || l.Engine.MayDisrupt(n)
}

// turn ends a round of inputs: evaluate, tell, hand over. Before Run nothing is told
// and nothing begins.
func (l *loop) turn() {
	l.SettleDirty()
	if !l.running {
		return
	}
	l.runs.Follow()
	l.FlushLooks()
	l.publish()
	if len(l.Ready) > 0 {
		l.Exec.Submit(l.Ready)
		clear(l.Ready)
		l.Ready = l.Ready[:0]
		if cap(l.Ready) > engine.MaxSpare {
			l.Ready = nil
		}
	}
	l.TellDone()
	l.checkWaiters()
	l.checkSynced()
	l.wakeReaders()
	if audit != nil {
		audit(l.G)
	}
}

// audit looks at the graph after every turn; tests set it.
var audit func(*graph.Graph)

// publish publishes what changed in this turn: views, states, watchers.
func (l *loop) publish() {
	for _, n := range l.Touched {
		n.Flags &^= assess.FlagTouched
		if k := kind.Of(n); k != nil && k.View.Active.Load() {
			k.View.Set(n)
		}
		state := uint8(l.StateOf(n))
		if state != n.State {
			l.RecordState(n, State(n.State), State(state))
			n.State, n.Since = state, l.Now.UnixNano()
			l.notifyDependents(n)
		}
		l.changed(n)
		if len(l.lookers) > 0 {
			l.awaitMoved(n)
		}
		if len(l.places.one) > 0 {
			l.movedOnPath(n)
		}
	}
	clear(l.Touched)
	l.Touched = l.Touched[:0]
	if cap(l.Touched) > engine.MaxSpare {
		l.Touched = nil
	}
	l.Hist.Publish()
}

// notifyDependents tells of those who wait for n: their reasons say how n stands.
func (l *loop) notifyDependents(n *graph.Node) {
	if len(l.watchers) == 0 {
		return
	}
	for _, edge := range n.In {
		if edge.OfDesired() && edge.State != graph.Satisfied {
			l.changed(edge.From)
		}
	}
}

// setClocks begins what is due by the clock from the start on: audits, which
// read keys from time to time, and the end of the grace.
func (l *loop) setClocks() {
	for _, p := range l.opts.Policies {
		if p.Audit > 0 {
			l.auditNext(p)
		}
	}
	if l.opts.Grace > 0 {
		l.Retries.AddFunc(l.Now.Add(l.opts.Grace), l.ExpireGrace)
	}
	l.Arm()
}

func (l *loop) auditNext(p Policy) {
	spread := time.Duration(float64(p.Audit) * 0.2 * (l.opts.Rand() - 0.5))
	l.Retries.AddFunc(l.Now.Add(p.Audit+spread), func() {
		t := &Txn{Source: "audit", Note: "audit " + string(p.Keys), Look: []Key{p.Keys}, hint: true}
		if p.Keys == "" {
			t.Look, t.LookAll = nil, true
		}
		l.inbox(input{txn: t, handle: newHandle(nil, *t)})
		l.auditNext(p)
	})
}
