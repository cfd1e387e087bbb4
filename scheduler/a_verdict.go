package scheduler

import (
	"fmt"
	"hash/maphash"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// digest tells secrets of a value apart, for this process only; zero stands for secrets
// that are not known.
func (as *assessor) digest(k *kind, v any) uint64 {
	var h maphash.Hash
	h.SetSeed(as.seed)
	_, secrets := k.secrets(v)
	for _, s := range secrets {
		fmt.Fprintf(&h, "%d %s", len(s), s)
	}
	return max(h.Sum64(), 1)
}

// secretsDiffer reports whether a node that looks as wanted was made with other secrets.
// Where nobody knows, as after a restart, an update makes sure; nothing is made anew for
// that.
func (as *assessor) secretsDiffer(n *graph.Node, k *kind, goal any) bool {
	switch {
	case k.secrets == nil:
		return false
	case n.X == nil || n.X.Secrets == 0:
		return k.update != nil && len(k.secretsOf(goal)) > 0
	}
	return n.X.Secrets != as.digest(k, goal)
}

// verdict compares a node with what is wanted of it.
func (as *assessor) verdict(n *graph.Node, k *kind, actual, goal any) Verdict {
	v := k.compare(n.Key, actual, goal)
	if v.Change == Same && as.secretsDiffer(n, k, goal) {
		v = Verdict{Change: Replace, Reason: "a secret changed"}
		if k.update != nil {
			v.Change = InPlace
		}
	}
	return v
}

// isSame reports whether a value of the world is what is wanted of the node.
func (as *assessor) isSame(n *graph.Node, k *kind, actual any) (same bool) {
	if goal := n.Goal(); goal != nil {
		as.guard(n, func() { same = as.verdict(n, k, actual, goal).Change == Same })
	}
	return same
}
