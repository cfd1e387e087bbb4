package scheduler

import (
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

type pause struct {
	target Key
	reason string
	until  time.Time
}

// pausedBy finds the pause that holds a node; a derived value is held with its base.
func (as *assessor) pausedBy(n *graph.Node) *pause {
	if len(as.pauses) == 0 {
		return nil
	}
	for ; n != nil; n = n.Base {
		for target, p := range as.pauses {
			if kv.Under(n.Key, []Key{target}) {
				return &p
			}
		}
	}
	return nil
}

// nodesUnder are the nodes of the targets, sorted by key.
func (as *assessor) nodesUnder(targets []Key) []*graph.Node {
	var out []*graph.Node
	if len(targets) == 0 {
		as.g.All(func(n *graph.Node) bool { out = append(out, n); return true })
	}
	for _, t := range targets {
		if !kv.IsPrefix(t) {
			if n := as.g.Get(t); n != nil {
				out = append(out, n)
			}
			continue
		}
		as.g.Below(t, func(n *graph.Node) bool { out = append(out, n); return true })
	}
	slices.SortFunc(out, byKey)
	return slices.Compact(out)
}
