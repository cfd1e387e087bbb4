package assess

import (
	"maps"
	"slices"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// Fork returns an assessor of a copy of the graph, in which node finds the copy of a node.
func (as *Assessor) Fork(g *graph.Graph, kinds *kind.Registry, node func(*graph.Node) *graph.Node) *Assessor {
	out := &Assessor{G: g, Kinds: kinds, Policies: as.Policies, Pauses: maps.Clone(as.Pauses), seed: as.seed,
		Sources: slices.Clone(as.Sources), Synced: as.Synced, GraceExpired: as.GraceExpired, Judged: as.Judged, Mark: as.Mark,
		UnreadNodes: make(map[*graph.Node]bool, len(as.UnreadNodes))}
	for n, unread := range as.UnreadNodes {
		out.UnreadNodes[node(n)] = unread
	}
	out.HeldBack = maps.Clone(as.HeldBack)
	return out
}
