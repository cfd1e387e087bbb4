package scheduler

import (
	"github.com/plumb-net/plumb/scheduler/graph"
)

// applied notes with which secrets the node is in the world; nil is not known.
func (e *engine) applied(n *graph.Node, k *kind, v any) {
	switch {
	case k == nil || k.secrets == nil:
	case v != nil:
		e.g.Extra(n).Secrets = e.digest(k, v)
	case n.X != nil:
		e.g.Extra(n).Secrets = 0
	}
}

// believeSecrets: what is as wanted, and was made nobody knows with which secrets, counts
// as made with those that are wanted, so that a change of them is noticed.
func (e *engine) believeSecrets(n *graph.Node) {
	if k := kindOf(n); k != nil && k.secrets != nil && (n.X == nil || n.X.Secrets == 0) {
		e.applied(n, k, n.Goal())
	}
}
