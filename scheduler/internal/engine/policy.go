package engine

import (
	"log/slog"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// leaveDrifted leaves what somebody else changed as it is.
func (e *nodes) leaveDrifted(n *graph.Node, p kv.DriftPolicy) {
	e.G.Extra(n).Left = true
	e.G.GiveUpChange(n, true)
	if p == kv.DriftAlert {
		e.logf(slog.LevelWarn, "somebody else changed it", append(aboutDrift(n), "policy", p.String())...)
	}
}

// aboutDrift is what the log says of a node that has drifted.
func aboutDrift(n *graph.Node) []any {
	about := []any{"key", string(n.Key)}
	if n.X.By != "" {
		about = append(about, "by", n.X.By)
	}
	return about
}

// Unleave: the node is to be as wanted again.
func (e *nodes) Unleave(n *graph.Node) {
	if assess.Left(n) {
		e.G.Extra(n).Left = false
		e.SetFlag(n, assess.FlagDrifted, false)
		e.G.GiveUpChange(n, n.Held() == graph.UntilChange)
		e.G.Wake(n)
	}
}
