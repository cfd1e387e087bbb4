package assess

import (
	"fmt"
	"hash/maphash"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Digest tells secrets of a value apart, for this process only; zero stands for secrets
// that are not known.
func (as *Assessor) Digest(k *kind.Kind, v any) uint64 {
	var h maphash.Hash
	h.SetSeed(as.seed)
	_, secrets := k.Secrets(v)
	for _, s := range secrets {
		fmt.Fprintf(&h, "%d %s", len(s), s)
	}
	return max(h.Sum64(), 1)
}

// secretsDiffer reports whether a node that looks as wanted was made with other secrets.
// Where nobody knows, as after a restart, an update makes sure; nothing is made anew for
// that.
func (as *Assessor) secretsDiffer(n *graph.Node, k *kind.Kind, goal any) bool {
	switch {
	case k.Secrets == nil:
		return false
	case n.X == nil || n.X.Secrets == 0:
		return k.Update != nil && len(k.SecretsOf(goal)) > 0
	}
	return n.X.Secrets != as.Digest(k, goal)
}

// Verdict compares a node with what is wanted of it.
func (as *Assessor) Verdict(n *graph.Node, k *kind.Kind, actual, goal any) kv.Verdict {
	v := k.Compare(n.Key, actual, goal)
	if v.Change == kv.Same && as.secretsDiffer(n, k, goal) {
		v = kv.Verdict{Change: kv.Replace, Reason: "a secret changed"}
		if k.Update != nil {
			v.Change = kv.InPlace
		}
	}
	return v
}

// IsSame reports whether an actual value is what is wanted of the node.
func (as *Assessor) IsSame(n *graph.Node, k *kind.Kind, actual any) (same bool) {
	if goal := n.Goal(); goal != nil {
		as.Guard(n, func() { same = as.Verdict(n, k, actual, goal).Change == kv.Same })
	}
	return same
}
