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
	left, lacks := maxComing, false
	for _, e := range n.Out {
		if !e.OfDesired() || e.State != graph.Missing {
			continue
		}
		if e.Prefix() != "" || e.Together() || !as.comes(e.To, n, &left) {
			return false
		}
		lacks = true
	}
	return lacks
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
	case n.Busy(), n.Frozen, Left(n), Has(n, FlagNeedsRead), as.heldBy(n) != OnNothing, baseUntried(n), oldPeer(n) != nil:
		return false
	}
	if _, holder := n.Holder(); holder != nil {
		return false
	}
	for _, e := range n.Out {
		switch {
		case !e.OfDesired():
		case e.Together(), e.To == nil, e.To == waiting, e.To.DependsOn(waiting):
			return false
		case e.State == graph.Satisfied:
		case e.Prefix() != "", !as.comes(e.To, waiting, left):
			return false
		}
	}
	return true
}
