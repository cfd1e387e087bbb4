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

// Unblock: something about t has changed. Who waits for it is tried again, once.
func (e *nodes) Unblock(t *graph.Node) {
	if len(e.blocked) == 0 {
		return
	}
	for _, n := range slices.SortedFunc(maps.Keys(e.blocked[t.Key]), assess.ByKey) {
		if !e.blocked[t.Key][n] {
			continue
		}
		// The interest in t stays until it is known what comes of it: t could be observed
		// for no longer than that, and be found anew each time, and wake n again.
		e.blocked[t.Key][n] = false
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
