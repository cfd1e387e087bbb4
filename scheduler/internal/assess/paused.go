package assess

import (
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Pause holds a target: a key, or all below a prefix.
type Pause struct {
	Target kv.Key
	Reason string
	Until  time.Time
	// HeldBack is the ID of what is held back, if that is why: nobody paused it.
	HeldBack string
}

// HeldBack are keys that nobody wants any more, too many at once to be removed unasked.
type HeldBack struct {
	ID     string
	Reason string
	// Cause is the transaction that took them from the intent.
	Cause uint64
	At    time.Time
}

// PausedBy finds the pause that holds a node; a derived value is held with its base.
// What is held back is paused, each key by itself. Only a shadow holds what its owner has
// taken back.
func (as *Assessor) PausedBy(n *graph.Node) *Pause {
	if as.Shadow != "" {
		return &Pause{Reason: as.Shadow}
	}
	if !as.Pausing() || GoesByOwner(n) {
		return nil
	}
	for ; n != nil; n = n.Base {
		if h := as.HeldBack[n.Key]; h != nil {
			return &Pause{Target: n.Key, Reason: h.ID + " is held back: " + h.Reason, HeldBack: h.ID}
		}
		for target, p := range as.Pauses {
			if kv.Under(n.Key, []kv.Key{target}) {
				return &p
			}
		}
	}
	return nil
}

// Pausing reports whether anything is held.
func (as *Assessor) Pausing() bool {
	return as.Shadow != "" || len(as.Pauses) > 0 || len(as.HeldBack) > 0
}

// GoesByOwner reports whether the owner of a node has taken it back, or that of its base, or
// of what it depends on: it cannot outlive that.
func GoesByOwner(n *graph.Node) bool {
	for m := n; m != nil; m = m.Base {
		if Has(m, FlagByOwner) {
			return true
		}
	}
	for _, edge := range n.Out {
		if edge.OfActual() && edge.To != nil && Has(edge.To, FlagByOwner) {
			return true
		}
	}
	return false
}

// NodesUnder are the nodes of the targets, sorted by key.
func (as *Assessor) NodesUnder(targets []kv.Key) []*graph.Node {
	var out []*graph.Node
	as.EachUnder(targets, func(n *graph.Node) { out = append(out, n) })
	slices.SortFunc(out, ByKey)
	return slices.Compact(out)
}

// EachUnder calls f for what NodesUnder returns, in no order, and perhaps more than once.
func (as *Assessor) EachUnder(targets []kv.Key, f func(*graph.Node)) {
	each := func(n *graph.Node) bool { f(n); return true }
	if len(targets) == 0 {
		as.G.All(each)
	}
	for _, t := range targets {
		if !kv.IsPrefix(t) {
			if n := as.G.Get(t); n != nil {
				f(n)
			}
			continue
		}
		as.G.Below(t, each)
	}
}
