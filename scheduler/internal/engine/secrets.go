package engine

import (
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// applied notes with which secrets the node was applied; nil is not known.
func (e *nodes) applied(n *graph.Node, k *kind.Kind, v any) {
	switch {
	case k == nil || k.Secrets == nil:
	case v != nil:
		e.G.Extra(n).Secrets = e.Digest(k, v)
	case n.X != nil:
		e.G.Extra(n).Secrets = 0
	}
}

// believeSecrets: what is as wanted, and was made nobody knows with which secrets, counts
// as made with those that are wanted, so that a change of them is noticed.
func (e *nodes) believeSecrets(n *graph.Node) {
	if k := kind.Of(n); k != nil && k.Secrets != nil && (n.X == nil || n.X.Secrets == 0) {
		e.applied(n, k, n.Goal())
	}
}
