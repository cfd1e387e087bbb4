package scheduler

import "github.com/plumb-net/plumb/scheduler/graph"

func (e *engine) wakeUnder(target Key) {
	e.recheckAll = true
	for _, n := range e.nodesUnder([]Key{target}) {
		e.wakeDerived(n)
	}
}

// wakeDerived wakes a node and all that it derives, which is held with it.
func (e *engine) wakeDerived(n *graph.Node) {
	e.g.Wake(n)
	if n.X != nil {
		for _, c := range n.X.Children {
			e.wakeDerived(c)
		}
	}
}

// freeze has others see whether the node is paused: it satisfies no new need
// then, and nothing that stands on it has to go.
func (e *engine) freeze(n *graph.Node) {
	if n.Frozen || len(e.pauses) > 0 {
		e.g.SetFrozen(n, e.pausedBy(n) != nil)
	}
}
