package scheduler

import (
	"context"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// Handle is a submitted transaction.
type Handle struct {
	s      *Scheduler
	txn    Txn
	result Result
	err    error
	done   chan struct{}

	// owned by the loop
	waiter                         // for the keys that the transaction touched
	named     int                  // how many of the keys the transaction names; others moved because of its look
	follows   map[*graph.Node]bool // those others
	kinds     []*kind.Kind         // that are to be read completely first
	before    []Change
	reverted  bool
	planned   bool    // its plan is being executed
	announced *Handle // of Expect, for the same transaction
}

func newHandle(s *Scheduler, t Txn) *Handle {
	h := &Handle{s: s, txn: t, done: make(chan struct{})}
	h.waiter = waiter{handle: h, slot: -1}
	return h
}

// Wait returns when every touched key, derived ones included, is settled. When
// ctx ends first the transaction goes on; only the waiting ends, and the result is
// empty. The error is ctx.Err(), ErrStopped, or why the transaction was refused,
// see [Scheduler.Submit].
func (h *Handle) Wait(ctx context.Context) (Result, error) {
	select {
	case <-h.done:
		return h.result, h.err
	default:
	}
	select {
	case <-h.done:
		return h.result, h.err
	case <-ctx.Done():
		h.s.push(input{abandon: h})
		return Result{}, ctx.Err()
	}
}

// Done is closed when the transaction is settled.
func (h *Handle) Done() <-chan struct{} { return h.done }

// waiter waits until keys are settled: those of a transaction, or the one that
// watchers were told is busy.
type waiter struct {
	handle    *Handle // nil if watchers are to be told
	keys      []*graph.Node
	at        int           // keys before it were settled when they were looked at
	path      []*graph.Node // from a key to what it waits for at the end
	moved     int           // the first of the path that has changed since
	slot      int           // in loop.waiters, -1 when not waiting
	toRecheck bool          // in loop.toRecheck
}

// await has the waiter looked at once its keys may have settled.
func (l *loop) await(w *waiter) {
	w.at, w.path, w.moved = 0, nil, 0
	w.slot = len(l.waiters)
	l.waiters = append(l.waiters, w)
	l.recheck(w)
}

// leaveOff ends the waiting.
func (l *loop) leaveOff(w *waiter) {
	if w.slot < 0 {
		return
	}
	if w.handle != nil {
		delete(l.lookers, w.handle.result.Seq)
	}
	l.cutPath(w, 0)
	last := l.waiters[len(l.waiters)-1]
	l.waiters[w.slot], last.slot = last, w.slot
	l.waiters[len(l.waiters)-1] = nil
	l.waiters = l.waiters[:len(l.waiters)-1]
	w.slot = -1
}

// recheck has the waiter checked at the end of the turn.
func (l *loop) recheck(w *waiter) {
	if !w.toRecheck {
		w.toRecheck = true
		l.toRecheck = append(l.toRecheck, w)
	}
}

// recheckAll has every waiter checked from the start: something changed that
// shows at no node.
func (l *loop) recheckAll() {
	for _, w := range l.waiters {
		w.moved = 0
		l.recheck(w)
	}
}

// place is where a node is on the path of a waiter.
type place struct {
	w *waiter
	i int
}

// places are those of the nodes on paths. Most have one.
type places struct {
	one  map[*graph.Node]place
	more map[*graph.Node][]place
}

func newPlaces() places {
	return places{one: map[*graph.Node]place{}, more: map[*graph.Node][]place{}}
}

func (p *places) add(n *graph.Node, at place) {
	if _, taken := p.one[n]; taken {
		p.more[n] = append(p.more[n], at)
		return
	}
	p.one[n] = at
}

func (p *places) remove(n *graph.Node, w *waiter) {
	rest := p.more[n]
	switch last := len(rest) - 1; {
	case p.one[n].w != w:
		rest = slices.DeleteFunc(rest, func(at place) bool { return at.w == w })
	case last < 0:
		delete(p.one, n)
		return
	default:
		p.one[n], rest = rest[last], rest[:last]
	}
	if p.more[n] = rest; len(rest) == 0 {
		delete(p.more, n)
	}
}

// movedOnPath notes that a node changed that somebody waits for.
func (l *loop) movedOnPath(n *graph.Node) {
	p, found := l.places.one[n]
	if !found {
		return
	}
	l.pathMoved(p)
	for _, p := range l.places.more[n] {
		l.pathMoved(p)
	}
}

func (l *loop) pathMoved(p place) {
	p.w.moved = min(p.w.moved, p.i)
	l.recheck(p.w)
}

// checkWaiters ends the waiting of those whose keys have all settled. A waiter is
// looked at only when a node on its path changed, and from there on: so long
// chains cost what moves in them, not their length at every turn.
func (l *loop) checkWaiters() {
	if l.AllMoved {
		l.AllMoved = false
		l.recheckAll()
	}
	if len(l.toRecheck) == 0 {
		return
	}
	l.NewPass()
	toRecheck := l.toRecheck
	l.toRecheck = nil
	for _, w := range toRecheck {
		w.toRecheck = false
		if w.slot < 0 || !l.allSettled(w) {
			continue
		}
		l.leaveOff(w)
		if w.handle != nil {
			l.finish(w.handle)
		} else {
			l.tellSettled(w.keys[0])
		}
	}
}

// allSettled goes through the keys once, and a second time at the end, since
// what was settled early may have moved again. So the cost over a transaction's
// life is linear in its keys.
func (l *loop) allSettled(w *waiter) bool {
	if w.handle != nil && !l.mayEnd(w.handle) {
		return false
	}
	if len(w.path) > 0 && !l.pathSettled(w) {
		return false
	}
	for ; w.at < len(w.keys); w.at++ {
		if !l.keySettled(w, w.keys[w.at]) {
			return false
		}
	}
	for i, n := range w.keys {
		if !l.keySettled(w, n) {
			w.at = i
			return false
		}
	}
	return true
}

// mayEnd reports whether the plan of the transaction is through, and whether the kinds
// that it asked to be read were.
func (l *loop) mayEnd(h *Handle) bool {
	if h.planned {
		return false
	}
	for len(h.kinds) > 0 {
		if l := h.kinds[0].Look; l.All || l.Running {
			return false
		}
		h.kinds = h.kinds[1:]
	}
	return true
}

// pathSettled takes up the path where it has changed and goes back towards the
// key as far as all is settled.
func (l *loop) pathSettled(w *waiter) bool {
	if w.moved >= len(w.path) {
		return false
	}
	for i := w.moved; i >= 0; i-- {
		n := w.path[i]
		l.cutPath(w, i)
		if !l.follow(w, n) {
			return false
		}
	}
	return true
}

func (l *loop) keySettled(w *waiter, n *graph.Node) bool {
	n = l.current(n)
	return n == nil || l.follow(w, n)
}

// current is the node of the same key now, nil if there is none.
func (l *loop) current(n *graph.Node) *graph.Node {
	if n.Dropped() {
		return l.G.Get(n.Key)
	}
	return n
}

// follow reports whether the node is settled; if not, the way to what it waits
// for is added to the waiter's path.
func (l *loop) follow(w *waiter, n *graph.Node) bool {
	if l.Settled(n) {
		return true
	}
	l.EndPath(func(n *graph.Node) {
		n.Mark = 0 // whoever else waits for it needs the whole way
		l.places.add(n, place{w, len(w.path)})
		w.path = append(w.path, n)
	})
	w.moved = len(w.path)
	return false
}

// cutPath shortens a waiter's path to i nodes.
func (l *loop) cutPath(w *waiter, i int) {
	for _, n := range w.path[i:] {
		l.places.remove(n, w)
	}
	w.path = w.path[:i]
	w.moved = i
}

// awaitMoved has who asked for a look wait for what moved because of it.
func (l *loop) awaitMoved(n *graph.Node) {
	h := l.lookers[n.Cause]
	if h == nil || h.follows[n] {
		return
	}
	if h.follows == nil {
		h.follows = map[*graph.Node]bool{}
	}
	h.follows[n] = true
	h.keys = append(h.keys, n)
	l.recheck(&h.waiter)
}

func (l *loop) finish(h *Handle) {
	keys := h.keys[:h.named]
	if !slices.IsSortedFunc(keys, assess.ByKey) {
		slices.SortFunc(keys, assess.ByKey)
	}
	keys = slices.Compact(keys)
	h.keys, h.named = keys, len(keys) // for a revert, which waits for them once more
	h.result.Keys = make([]Outcome, len(keys))
	for i, n := range keys {
		h.result.Keys[i] = Outcome{Key: n.Key, State: Removed}
		if now := l.current(n); now != nil {
			l.outcome(now, &h.result.Keys[i])
		}
	}
	if h.txn.Revert && !h.reverted && slices.ContainsFunc(h.result.Keys, Outcome.failed) {
		h.result.Failed = slices.DeleteFunc(slices.Clone(h.result.Keys), func(o Outcome) bool { return !o.failed() })
		l.revert(h)
		return
	}
	h.result.Reverted = h.reverted
	close(h.done)
	if h.announced != nil {
		h.announced.result = h.result
		close(h.announced.done)
	}
}

// revert writes back what the source wanted before, and waits for that.
func (l *loop) revert(h *Handle) {
	h.reverted = true
	l.inbox(input{txn: h.txn.undo(h.before), handle: h})
}

func (t Txn) undo(before []Change) *Txn {
	note := "revert"
	if t.Note != "" {
		note = "revert " + t.Note
	}
	return &Txn{Source: t.Source, Note: note, Want: before}
}

// outcome tells how a node settled. Where thousands wait, only what for is
// told: whoever wants to know more of one asks for its status.
func (l *loop) outcome(n *graph.Node, o *Outcome) {
	switch o.State = l.StateOf(n); {
	case o.State == Configured, o.State == Removed, o.State == Absent:
	case o.State == Pending && n.Needs() != graph.Satisfied:
		for _, edge := range n.Out {
			if !edge.OfDesired() || edge.State == graph.Satisfied {
				continue
			}
			if o.Reason == "" {
				o.Reason = "needs " + edge.Target()
			} else if t := edge.Target(); !strings.HasSuffix(o.Reason, " "+t) {
				o.Reason += ", " + t
			}
		}
	default:
		o.Reason = l.explainer.Status(n).Reason
	}
}
