package engine

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
)

// Fork returns an engine on a copy of the graph, for previews outside of the loop. All that
// is due must have begun. halt is asked all the time; if it returns true Fork returns nil.
func (e *Engine) Fork(halt func() bool) *Engine {
	kinds, copyOf := e.Kinds.Fork()
	kindOf := func(k *graph.Kind) *graph.Kind {
		if k == nil {
			return nil
		}
		return copyOf(k)
	}
	g, node := e.G.Fork(kinds.GraphKind, kindOf, halt)
	if g == nil {
		return nil
	}
	f := New(e.Assessor.Fork(g, kinds, node), e.Set, history.None(), e.Now, func(time.Time) {}, func(slog.Level, string, ...any) {})
	f.Seq, f.Began, f.stamp, f.heldBacks, f.takenBack = e.Seq, e.Began, e.stamp, e.heldBacks, maps.Clone(e.takenBack)
	for k, waiting := range e.blocked {
		f.blocked[k] = forked(waiting, node)
	}
	for n, bases := range e.refused {
		for _, b := range bases {
			f.refused[node(n)] = append(f.refused[node(n)], node(b))
		}
	}
	if e.budgets != nil {
		f.budgets = make(map[budgetID]*budget, len(e.budgets))
	}
	for id, b := range e.budgets {
		f.budgets[id] = &budget{limit: b.limit, begun: slices.Clone(b.begun), waiting: forked(b.waiting, node), timed: b.timed}
	}
	f.asked, f.patient, f.goneEarly = e.asked, forked(e.patient, node), maps.Clone(e.goneEarly)
	return f
}

func forked[V any](m map[*graph.Node]V, node func(*graph.Node) *graph.Node) map[*graph.Node]V {
	out := make(map[*graph.Node]V, len(m))
	for n, v := range m {
		out[node(n)] = v
	}
	return out
}
