package scheduler

import (
	"github.com/plumb-net/plumb/scheduler/graph"
)

// loop is the engine with those who follow it: who waits, who watches, and the plans that
// are being executed. One goroutine at a time runs it, see [Scheduler.Run].
type loop struct {
	*engine
	opts      Options
	explainer *explainer
	planner   *planner
	runs      *planRuns

	waiters  []*waiter
	stirred  []*waiter // to check at the end of the turn
	places   places
	syncing  []*synced            // who waits for sources or kinds
	lookers  map[uint64]*Handle   // of transactions that look, by their number
	toldBusy map[*graph.Node]bool // to watchers, which hear when they are not any more
	watchers [64]*Watcher
	watching int
	expected []*Handle // of transactions that sources will submit
	running  bool      // Run has begun
	inbox    func(input)
}

var _ outside = (*loop)(nil)

func newLoop(e *engine, o Options, inbox func(input)) *loop {
	x := &explainer{e.assessor}
	l := &loop{engine: e, opts: o, explainer: x, planner: &planner{e, x}, runs: &planRuns{e: e, x: x}, places: newPlaces(),
		lookers: map[uint64]*Handle{}, toldBusy: map[*graph.Node]bool{}, inbox: inbox}
	e.out = l
	return l
}

// begin lets an operation begin, unless it waits for its turn in a plan.
func (l *loop) begin(o *op, a assessment) {
	l.engine.begin(o, a)
	if !l.runs.begin(o) {
		l.ready = graph.Push(l.ready, o)
	}
}

// full: where a plan is executed the order of operations is counted.
func (l *loop) full() bool { return len(l.runs.all) > 0 }

// turn ends a round of inputs: think, tell, hand over. Before Run nothing is told
// and nothing begins.
func (l *loop) turn() {
	l.think()
	if !l.running {
		return
	}
	l.runs.follow()
	l.flushLooks()
	l.tell()
	if len(l.ready) > 0 {
		l.exec.Submit(l.ready)
		clear(l.ready)
		l.ready = l.ready[:0]
		if cap(l.ready) > maxSpare {
			l.ready = nil
		}
	}
	l.checkWaiters()
	l.checkSynced()
	l.wakeReaders()
	if audit != nil {
		audit(l.g)
	}
}

// audit looks at the graph after every turn; tests set it.
var audit func(*graph.Graph)

// tell publishes what changed in this turn: views, states, watchers.
func (l *loop) tell() {
	for _, n := range l.touched {
		n.Flags &^= flagTouched
		if k := kindOf(n); k != nil && k.view.active.Load() {
			k.view.set(n)
		}
		state := uint8(l.stateOf(n))
		if state != n.State {
			l.told(n, State(n.State), State(state))
			n.State, n.Since = state, l.now.UnixNano()
			l.retell(n)
		}
		n.Revision++
		l.notifyWatchers(n)
		if len(l.lookers) > 0 {
			l.awaitMoved(n)
		}
		if len(l.places.one) > 0 {
			l.movedOnPath(n)
		}
	}
	clear(l.touched)
	l.touched = l.touched[:0]
	if cap(l.touched) > maxSpare {
		l.touched = nil
	}
	l.hist.Publish()
}

// retell tells of those who wait for n: their reasons say how n stands.
func (l *loop) retell(n *graph.Node) {
	if l.watching == 0 {
		return
	}
	for _, edge := range n.In {
		if edge.OfDesired() && edge.State != graph.Satisfied {
			edge.From.Revision++
			l.notifyWatchers(edge.From)
		}
	}
}
