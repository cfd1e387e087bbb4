package engine

import (
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// WakeUnder has all that a target means evaluated again, with what it derives.
func (e *nodes) WakeUnder(target kv.Key) {
	e.AllMoved = true
	for _, n := range e.NodesUnder([]kv.Key{target}) {
		e.wakeDerived(n)
	}
}

// wakeDerived wakes a node and all that it derives, which is held with it.
func (e *nodes) wakeDerived(n *graph.Node) {
	e.G.Wake(n)
	if n.X != nil {
		for _, c := range n.X.Children {
			e.wakeDerived(c)
		}
	}
}

// freeze notes whether the node is paused, and reports whether that changed: a paused node
// satisfies no new need, and nothing that depends on it has to go.
func (e *nodes) freeze(n *graph.Node) (changed bool) {
	return (n.Frozen || e.Pausing()) && e.G.SetFrozen(n, e.PausedBy(n) != nil)
}
