package assess

import (
	"github.com/plumb-net/plumb/scheduler/internal/graph"
)

// awaitTurn is what a node waits for that is to go, or to change alone, before it begins to
// leave: its turn in the budget of its kind. What it derives stays as long. It is for nodes
// in place; it waits for nothing if it has had its turn, or needs none, as what its owner has
// taken back.
func (as *Assessor) awaitTurn(n *graph.Node, reason string) Assessment {
	switch {
	case GoesByOwner(n):
		return Assessment{}
	case n.Base != nil && Has(n.Base, FlagAwaitsTurn):
		return Assessment{Blocker: OnBase, By: n.Base, Reason: reason}
	case Has(n, FlagHasTurn):
		return Assessment{}
	}
	if limit, _ := as.Policies.Disruptions(n.Key); limit == 0 || goesWithOthers(n) {
		return Assessment{}
	}
	return Assessment{Blocker: OnBudget, Reason: reason}
}

// goesWithOthers reports whether something that the node depends on is on its way out, or
// is gone, or is not as the node needs it any more: keeping the node would keep nothing
// working, and would hold up what has had its turn.
func goesWithOthers(n *graph.Node) bool {
	for _, edge := range n.Out {
		switch {
		case !edge.OfActual():
		case edge.OfDesired() && edge.State == graph.Missing && !edge.Together():
			return true
		case edge.To != nil && (edge.To.Leaving || edge.To.Presence == graph.Absent && !edge.To.MayExist):
			return true
		}
	}
	return false
}
