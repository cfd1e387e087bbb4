package scheduler

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// Handle is a submitted transaction.
type Handle struct {
	s      *Scheduler
	txn    Txn
	result Result
	err    error
	done   chan struct{}

	// owned by the loop
	keys     []*graph.Node // that the transaction touched
	kinds    []*kind       // whose whole world is to be read first
	at       int           // keys before it were settled when they were looked at
	path     []*graph.Node // from a key to what it waits for at the end
	moved    int           // the first of the path that has changed since
	slot     int           // in engine.waiters, -1 when not waiting
	stirred  bool          // in engine.stirred
	before   []Change
	reverted bool
	walk     *walk   // of the plan that is being executed
	twin     *Handle // of Expect, for the same transaction
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

// await has the handle looked at once its keys may have settled.
func (e *engine) await(h *Handle) {
	h.at, h.path, h.moved = 0, nil, 0
	h.slot = len(e.waiters)
	e.waiters = append(e.waiters, h)
	e.stir(h)
}

// leaveOff ends the waiting of a handle.
func (e *engine) leaveOff(h *Handle) {
	if h.slot < 0 {
		return
	}
	e.cutPath(h, 0)
	last := e.waiters[len(e.waiters)-1]
	e.waiters[h.slot], last.slot = last, h.slot
	e.waiters[len(e.waiters)-1] = nil
	e.waiters = e.waiters[:len(e.waiters)-1]
	h.slot = -1
}

// stir has the handle checked at the end of the turn.
func (e *engine) stir(h *Handle) {
	if !h.stirred {
		h.stirred = true
		e.stirred = append(e.stirred, h)
	}
}

// stirAll has every handle checked from the start: something changed that
// shows at no node.
func (e *engine) stirAll() {
	for _, h := range e.waiters {
		h.moved = 0
		e.stir(h)
	}
}

// place is where a node stands on the path of a handle.
type place struct {
	h *Handle
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

func (p *places) remove(n *graph.Node, h *Handle) {
	rest := p.more[n]
	switch last := len(rest) - 1; {
	case p.one[n].h != h:
		rest = slices.DeleteFunc(rest, func(at place) bool { return at.h == h })
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

// movedOnPath notes that a node changed that handles wait for.
func (e *engine) movedOnPath(n *graph.Node) {
	p, found := e.places.one[n]
	if !found {
		return
	}
	e.pathMoved(p)
	for _, p := range e.places.more[n] {
		e.pathMoved(p)
	}
}

func (e *engine) pathMoved(p place) {
	p.h.moved = min(p.h.moved, p.i)
	e.stir(p.h)
}

// checkWaiters ends the handles whose keys have all settled. A handle is
// looked at only when a node on its path changed, and from there on: so long
// chains cost what moves in them, not their length at every turn.
func (e *engine) checkWaiters() {
	if len(e.stirred) == 0 {
		return
	}
	e.newPass()
	stirred := e.stirred
	e.stirred = nil
	for _, h := range stirred {
		h.stirred = false
		if h.slot >= 0 && e.handleSettled(h) {
			e.leaveOff(h)
			e.finish(h)
		}
	}
}

// handleSettled goes through the keys once, and a second time at the end, since
// what was settled early may have moved again. So the cost over a transaction's
// life is linear in its keys.
func (e *engine) handleSettled(h *Handle) bool {
	if h.walk != nil {
		return false
	}
	for len(h.kinds) > 0 {
		if l := h.kinds[0].look; l.all || l.running {
			return false
		}
		h.kinds = h.kinds[1:]
	}
	if len(h.path) > 0 && !e.pathSettled(h) {
		return false
	}
	for ; h.at < len(h.keys); h.at++ {
		if !e.keySettled(h, h.keys[h.at]) {
			return false
		}
	}
	for i, n := range h.keys {
		if !e.keySettled(h, n) {
			h.at = i
			return false
		}
	}
	return true
}

// pathSettled takes up the path where it has changed and goes back towards the
// key as far as all is settled.
func (e *engine) pathSettled(h *Handle) bool {
	if h.moved >= len(h.path) {
		return false
	}
	for i := h.moved; i >= 0; i-- {
		n := h.path[i]
		e.cutPath(h, i)
		if !e.follow(h, n) {
			return false
		}
	}
	return true
}

func (e *engine) keySettled(h *Handle, n *graph.Node) bool {
	n = e.current(n)
	return n == nil || e.follow(h, n)
}

// current is the node of the same key now, nil if there is none.
func (e *engine) current(n *graph.Node) *graph.Node {
	if n.Dropped() {
		return e.g.Get(n.Key)
	}
	return n
}

// follow tells whether the node is settled; if not, the way to what it waits
// for is added to the handle's path.
func (e *engine) follow(h *Handle, n *graph.Node) bool {
	if e.settled(n) {
		return true
	}
	for _, v := range e.trail {
		v.n.Mark = 0
		e.places.add(v.n, place{h, len(h.path)})
		h.path = append(h.path, v.n)
	}
	clear(e.trail)
	e.trail = e.trail[:0]
	h.moved = len(h.path)
	return false
}

// cutPath shortens a handle's path to i nodes.
func (e *engine) cutPath(h *Handle, i int) {
	for _, n := range h.path[i:] {
		e.places.remove(n, h)
	}
	h.path = h.path[:i]
	h.moved = i
}

func (e *engine) finish(h *Handle) {
	if !slices.IsSortedFunc(h.keys, byKey) {
		slices.SortFunc(h.keys, byKey)
	}
	h.keys = slices.Compact(h.keys)
	h.result.Keys = make([]Outcome, len(h.keys))
	for i, n := range h.keys {
		h.result.Keys[i] = Outcome{Key: n.Key, State: Removed}
		if now := e.current(n); now != nil {
			e.outcome(now, &h.result.Keys[i])
		}
	}
	if h.txn.Revert && !h.reverted && slices.ContainsFunc(h.result.Keys, Outcome.failed) {
		e.revert(h)
		return
	}
	h.result.Reverted = h.reverted
	close(h.done)
	if h.twin != nil {
		h.twin.result = h.result
		close(h.twin.done)
	}
}

// revert writes back what the source wanted before, and waits for that.
func (e *engine) revert(h *Handle) {
	h.reverted = true
	e.inbox(input{txn: h.txn.undo(h.before), handle: h})
}

func (t Txn) undo(before []Change) *Txn {
	note := "revert"
	if t.Note != "" {
		note = "revert " + t.Note
	}
	return &Txn{Source: t.Source, Note: note, Want: before}
}
