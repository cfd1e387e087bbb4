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
	keys     []Key
	kinds    []*kind // whose whole world is to be read first
	at       int     // keys before it were settled when they were looked at
	before   []Change
	reverted bool
}

// Wait returns when every touched key, derived ones included, is settled. When
// ctx ends first the transaction goes on; only the waiting ends.
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

// checkWaiters ends the handles whose keys have all settled.
func (e *engine) checkWaiters() {
	if len(e.waiters) == 0 {
		return
	}
	e.mark++
	waiting := e.waiters[:0]
	for _, h := range e.waiters {
		if !e.handleSettled(h) {
			waiting = append(waiting, h)
			continue
		}
		e.finish(h)
	}
	clear(e.waiters[len(waiting):])
	e.waiters = waiting
}

// handleSettled goes through the keys once, and a second time at the end, since
// what was settled early may have moved again. So the cost over a transaction's
// life is linear in its keys.
func (e *engine) handleSettled(h *Handle) bool {
	for len(h.kinds) > 0 {
		if l := h.kinds[0].look; l.all || l.running {
			return false
		}
		h.kinds = h.kinds[1:]
	}
	for ; h.at < len(h.keys); h.at++ {
		if !e.settledKey(h.keys[h.at]) {
			return false
		}
	}
	for i, k := range h.keys {
		if !e.settledKey(k) {
			h.at = i
			return false
		}
	}
	return true
}

func (e *engine) finish(h *Handle) {
	h.result.Keys = make([]Status, 0, len(h.keys))
	for _, k := range h.keys {
		h.result.Keys = append(h.result.Keys, e.statusOf(k))
	}
	slices.SortFunc(h.result.Keys, func(a, b Status) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	if h.txn.Revert && !h.reverted && slices.ContainsFunc(h.result.Keys, Status.failed) {
		e.revert(h)
		return
	}
	h.result.Reverted = h.reverted
	close(h.done)
}

// failed tells whether the key, or what it derives, could not be as wanted;
// one that waits for something has not failed.
func (s Status) failed() bool {
	return s.State == Failed || s.State == Retrying || s.State == InvalidState
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

func (e *engine) statusOf(k Key) Status {
	if n := e.g.Get(k); n != nil {
		return e.status(n)
	}
	return Status{Key: k, State: Removed}
}

func (e *engine) settledKey(k Key) bool {
	n := e.g.Get(k)
	return n == nil || e.settled(n)
}

// settled tells whether nothing that is under way or due can change the node.
// The answer is kept for one pass, so that long chains are walked once.
func (e *engine) settled(n *graph.Node) bool {
	yes, no := e.mark<<1, e.mark<<1|1
	switch n.Mark {
	case yes:
		return true
	case no:
		return false
	}
	n.Mark = yes // a circle of waiting nodes is settled
	if !e.settle1(n) {
		n.Mark = no
		return false
	}
	return true
}

func (e *engine) settle1(n *graph.Node) bool {
	k, x := kindOf(n), n.X
	switch {
	case n.Dropped(), k == nil:
		return true
	case x != nil && x.Overdue:
		return true
	case n.Moving, has(n, flagSuspect) && k.retrieve != nil:
		return false
	case e.held(n):
		return true
	}
	goal := n.Goal()
	switch {
	case n.Presence == graph.Unknown:
		return k.retrieve != nil && !k.Read && !k.OnDemand && k.look.attempts > 0
	case k.Observed:
		return true
	case goal == nil && (n.Presence == graph.Absent || n.Foreign):
		return true
	case goal == nil && !has(n, flagWithdrawn) && !e.mayDelete() && !n.Wanted():
		return true
	case n.Leaving:
		return n.Standing > 0 && e.pinsSettled(n)
	case goal == nil:
		return false
	case n.Needs() != graph.Satisfied:
		return e.missingSettled(n)
	case n.Presence == graph.Absent:
		_, h := n.Holder()
		return h != nil && e.settled(h)
	case !has(n, flagSame):
		_, h := n.Holder()
		return h != nil && e.settled(h)
	}
	return e.childrenSettled(n)
}

func (e *engine) pinsSettled(n *graph.Node) bool {
	all := true
	n.Standers(func(d *graph.Node) bool {
		all = e.settled(d)
		return all
	})
	return all
}

func (e *engine) missingSettled(n *graph.Node) bool {
	for _, edge := range n.Out {
		if !edge.OfDesired() || edge.State == graph.Satisfied {
			continue
		}
		if p := edge.Prefix(); p != "" {
			if !e.g.Below(p, func(m *graph.Node) bool { return !m.Wanted() || m == n || e.settled(m) }) {
				return false
			}
			continue
		}
		if !e.settled(edge.To) {
			return false
		}
	}
	return true
}

func (e *engine) childrenSettled(n *graph.Node) bool {
	if n.X == nil {
		return true
	}
	for _, c := range n.X.Children {
		if !e.settled(c) {
			return false
		}
	}
	return true
}
