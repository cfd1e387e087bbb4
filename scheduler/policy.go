package scheduler

import (
	"log/slog"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// leaveDrifted leaves what somebody else changed as it is.
func (e *engine) leaveDrifted(n *graph.Node, p DriftPolicy) {
	e.g.Extra(n).Left = true
	if p == DriftAlert {
		e.logf(slog.LevelWarn, "somebody else changed it", "key", string(n.Key), "policy", p.String())
	}
}

// unleave: the node is to be as wanted again.
func (e *engine) unleave(n *graph.Node) {
	if left(n) {
		e.g.Extra(n).Left = false
		e.setFlag(n, flagDrifted, false)
		e.g.Wake(n)
	}
}
