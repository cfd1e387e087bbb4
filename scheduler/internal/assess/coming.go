package assess

import (
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// A value in place that lacks something it needs has to go. If all that it lacks is about to be made,
// it waits instead: otherwise a transaction that gives it a need, and meets that need by several
// values in a row, would remove it and make it again, depending on what is made first.

// maxComing bounds how many nodes are looked at to tell whether one comes.
const maxComing = 64

// LacksOnlyComing reports whether all that a value in place lacks will be made, as far as is known.
func (as *Assessor) LacksOnlyComing(n *graph.Node) bool {
	left := maxComing
	return as.lackComes(n, n, &left)
}

// comes reports whether n will be made though waiting stays as it is: nothing keeps it, and all that
// it needs is there without waiting, or comes too.
func (as *Assessor) comes(n, waiting *graph.Node, left *int) bool {
	*left--
	k := kind.Of(n)
	switch {
	case *left < 0, k == nil, k.Observed, n.Presence != graph.Absent, n.Goal() == nil:
		return false
	case n.Operates():
		return true
	case n.Frozen, Left(n), as.heldBy(n) != OnNothing, baseUntried(n), oldPeer(n) != nil:
		return false
	}
	if _, holder := n.Holder(); holder != nil {
		return false
	}
	for _, e := range n.Out {
		if e.OfDesired() && (e.Together() || e.To == nil || e.To == waiting || e.To.DependsOn(waiting)) {
			return false
		}
	}
	return as.lackComes(n, waiting, left)
}

// lackComes reports whether all that n lacks comes, though waiting stays as it is.
func (as *Assessor) lackComes(n, waiting *graph.Node, left *int) bool {
	comes, unanswered := false, false
	for _, e := range n.Out {
		switch {
		case !e.OfDesired(), e.State == graph.Satisfied, n == waiting && e.State != graph.Missing:
		case e.Prefix() != "", e.Together():
			return false
		case isAsked(e.To):
		case answersOnDemand(e.To):
			unanswered = true
		case !as.comes(e.To, waiting, left):
			return false
		default:
			comes = true
		}
	}
	return comes || !unanswered
}

// answersOnDemand reports whether a key is observed once something needs it. What is read of it may
// depend on the other needs of what asks: a pool has a lease for a claim once the pool is made. So
// its absence is final only when none of those is about to be met.
func answersOnDemand(n *graph.Node) bool {
	k := kind.Of(n)
	return k != nil && k.Observed && k.OnDemand
}

// isAsked reports whether a key that is observed on demand has not been read yet, or is about to be
// read again.
func isAsked(n *graph.Node) bool {
	return answersOnDemand(n) && (n.Presence == graph.Unknown || n.BeingRead() || Has(n, FlagNeedsRead))
}
