package scheduler

import (
	"errors"

	"github.com/plumb-net/plumb/scheduler/graph"
)

func byKey(a, b *graph.Node) int {
	switch {
	case a.Key < b.Key:
		return -1
	case a.Key > b.Key:
		return 1
	}
	return 0
}

// failedToGo reports whether the last thing that failed was to delete the node.
func failedToGo(n *graph.Node) bool { return n.X != nil && Operation(n.X.LastOp) == OpDelete }

// wantedOf is what statuses tell as desired: also a value that was refused.
func wantedOf(n *graph.Node) any {
	if n.Desired == nil && n.X != nil {
		return n.X.Asked
	}
	return n.Desired
}

func actualOf(n *graph.Node) any {
	if n.Presence == graph.Absent {
		return nil
	}
	return n.Actual
}

// left reports whether the node is not as wanted because somebody else changed
// it, and is left so.
func left(n *graph.Node) bool { return n.X != nil && n.X.Left }

// waitsFor is the key that a node's failed operation waits for, "" for none.
func waitsFor(n *graph.Node) Key {
	var oe *OpError
	if n.X == nil || !errors.As(n.X.Err, &oe) {
		return ""
	}
	return oe.On
}

// taken reports whether the object was found and taken over, not made.
func taken(n *graph.Node) bool { return n.X != nil && n.X.Taken }

func (as *assessor) knownOf(k *kind) []known {
	out := make([]known, 0, k.look.knew)
	as.g.Below(k.Prefix, func(n *graph.Node) bool {
		if n.Actual != nil || n.Goal() != nil {
			out = graph.Push(out, knownNode(n))
		}
		return true
	})
	k.look.knew = len(out)
	return out
}
