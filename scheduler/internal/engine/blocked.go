package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// block notes that a node's operation waits for a key, and tells how long at
// most. If the key is in place, what is missing may have come meanwhile: then
// the node is tried again like after any other failure.
func (e *nodes) block(n *graph.Node, on kv.Key, backoff time.Duration) time.Duration {
	if e.blocked[on] == nil {
		e.blocked[on] = map[*graph.Node]bool{}
	}
	e.blocked[on][n] = true
	t := e.G.Get(on)
	if e.Kinds.Find(on) != nil {
		t = e.G.Node(on)
		e.G.Wake(t) // somebody takes an interest
	}
	if t != nil && t.Presence == graph.Present {
		return backoff
	}
	return e.Set.RetryMax
}

// Unblock: something about t has changed. Who waits for it is tried again.
func (e *nodes) Unblock(t *graph.Node) {
	if len(e.blocked) == 0 {
		return
	}
	waiting := slices.SortedFunc(maps.Keys(e.blocked[t.Key]), assess.ByKey)
	if len(waiting) == 0 {
		return
	}
	delete(e.blocked, t.Key)
	e.G.Wake(t) // nobody takes an interest any more
	for _, n := range waiting {
		if !n.Dropped() {
			e.TryAgain(n)
		}
	}
}

// Unwait forgets that a node waits for a key.
func (e *nodes) Unwait(n *graph.Node) {
	on := assess.WaitsFor(n)
	if on == "" {
		return
	}
	delete(e.blocked[on], n)
	if len(e.blocked[on]) > 0 {
		return
	}
	delete(e.blocked, on)
	if t := e.G.Get(on); t != nil {
		e.G.Wake(t)
	}
}
