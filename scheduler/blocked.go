package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// block notes that a node's operation waits for a key, and tells how long at
// most. If the key is in place, what is missing may have come meanwhile: then
// the node is tried again like after any other failure.
func (e *engine) block(n *graph.Node, on Key, backoff time.Duration) time.Duration {
	if e.blocked[on] == nil {
		e.blocked[on] = map[*graph.Node]bool{}
	}
	e.blocked[on][n] = true
	t := e.g.Get(on)
	if e.kinds.find(on) != nil {
		t = e.g.Node(on)
		e.g.Wake(t) // somebody takes an interest
	}
	if t != nil && t.Presence == graph.Present {
		return backoff
	}
	return e.set.retryMax
}

// unblock: something about t has changed. Who waits for it is tried again.
func (e *engine) unblock(t *graph.Node) {
	if len(e.blocked) == 0 {
		return
	}
	waiting := slices.SortedFunc(maps.Keys(e.blocked[t.Key]), byKey)
	if len(waiting) == 0 {
		return
	}
	delete(e.blocked, t.Key)
	e.g.Wake(t) // nobody takes an interest any more
	for _, n := range waiting {
		if !n.Dropped() && has(n, flagHeld) {
			e.release(n)
		}
	}
}

// unwait forgets that a node waits for a key.
func (e *engine) unwait(n *graph.Node) {
	on := waitsFor(n)
	if on == "" {
		return
	}
	delete(e.blocked[on], n)
	if len(e.blocked[on]) > 0 {
		return
	}
	delete(e.blocked, on)
	if t := e.g.Get(on); t != nil {
		e.g.Wake(t)
	}
}
