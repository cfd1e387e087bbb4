package scheduler

import (
	"github.com/plumb-net/plumb/scheduler/graph"
)

// left reports whether the node is not as wanted because somebody else changed
// it, and is left so.
func left(n *graph.Node) bool { return n.X != nil && n.X.Left }

// leaveDrifted leaves what somebody else changed as it is.
func (e *engine) leaveDrifted(n *graph.Node, p DriftPolicy) {
	e.g.Extra(n).Left = true
	if e.log != nil && p == DriftAlert {
		e.logf(slogWarn, "somebody else changed it", "key", string(n.Key), "policy", p.String())
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
