package assess

import (
	"errors"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// ByKey is the order of nodes by their keys.
func ByKey(a, b *graph.Node) int { return strings.Compare(string(a.Key), string(b.Key)) }

// FailedToGo reports whether the last thing that failed was to delete the node.
func FailedToGo(n *graph.Node) bool { return n.X != nil && kv.Operation(n.X.LastOp) == kv.OpDelete }

// WantedOf is what statuses tell as desired: also a value that was refused.
func WantedOf(n *graph.Node) any {
	if n.Desired == nil && n.X != nil {
		return n.X.Asked
	}
	return n.Desired
}

// ActualOf is what is believed to be there, nil if nothing is.
func ActualOf(n *graph.Node) any {
	if n.Presence == graph.Absent {
		return nil
	}
	return n.Actual
}

// Left reports whether the node is not as wanted because somebody else changed
// it, and is left so.
func Left(n *graph.Node) bool { return n.X != nil && n.X.Left }

// WaitsFor is the key that a node's failed operation waits for, "" for none.
func WaitsFor(n *graph.Node) kv.Key {
	var oe *kv.OpError
	if n.X == nil || !errors.As(n.X.Err, &oe) {
		return ""
	}
	return oe.On
}

// Taken reports whether the object was found and taken over, not made.
func Taken(n *graph.Node) bool { return n.X != nil && n.X.Taken }

// KnownOf is what is believed or wanted of all of a kind.
func (as *Assessor) KnownOf(k *kind.Kind) []kind.Known {
	out := make([]kind.Known, 0, k.Look.Knew)
	as.G.Below(k.Prefix, func(n *graph.Node) bool {
		if n.Actual != nil || n.Goal() != nil {
			out = graph.Push(out, kind.KnownNode(n))
		}
		return true
	})
	k.Look.Knew = len(out)
	return out
}
