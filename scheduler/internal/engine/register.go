package engine

import (
	"slices"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// Register adds a kind: what waits for it is judged anew, and the kind is read.
func (e *Engine) Register(k *kind.Kind, startWatch func(*kind.Kind)) error {
	if err := e.Kinds.Add(k); err != nil {
		return err
	}
	var waiting []*graph.Node
	e.G.Below(k.Prefix, func(n *graph.Node) bool { waiting = append(waiting, n); return true })
	slices.SortFunc(waiting, assess.ByKey)
	for _, n := range waiting {
		n.Kind = &k.Kind
		e.G.Start(n)
		e.reapply(n)
	}
	e.G.KindChanged(k.Prefix)
	e.AllMoved = true
	e.lookAtKind(k)
	e.readAgainAfter(k)
	if k.Watch != nil {
		startWatch(k)
	}
	return nil
}

// reapply judges a want again, now that its kind is known.
func (e *editor) reapply(n *graph.Node) {
	e.G.Wake(n)
	switch {
	case n.Source == graph.Derived && n.Base != nil:
		e.derive(n.Base, n, n.Desired)
	case n.X != nil && len(n.X.Wants) > 0:
		e.applyStrongest(n, n.X.Wants)
	case n.Source >= 0:
		e.apply(n, &graph.Want{Source: n.Source, Value: n.Desired})
	}
	if n.X == nil || n.X.Invalid == nil || n.Desired == nil {
		return
	}
	if kind.Validate(kind.Of(n), n.Key, n.Desired) != nil { // nor was the value before it judged
		e.setDesired(n, nil)
	} else {
		e.setDesired(n, n.Desired) // now its needs are known
	}
}

// Unregister takes a kind away: nobody knows any more what is there of it.
func (e *Engine) Unregister(k *kind.Kind) {
	if k.Stop != nil {
		k.Stop()
	}
	e.Kinds.Remove(k)
	k.View.Close()
	k.Look = kind.LookState{Listed: k.Look.Listed}
	var nodes []*graph.Node
	e.G.Below(k.Prefix, func(n *graph.Node) bool { nodes = append(nodes, n); return true })
	slices.SortFunc(nodes, assess.ByKey)
	for _, n := range nodes {
		e.SetFlag(n, assess.FlagSame|assess.FlagNeedsRead|assess.FlagStale, false)
		e.clearHold(n)
		if n.Phase == graph.Queued {
			e.G.EndRead(n)
		}
		n.Kind = nil
		delete(e.UnreadNodes, n)
		n.Gen++
		was := assess.ActualOf(n)
		e.G.SetActual(n, graph.ActualState{}, true)
		e.recordObserved(n, was, false)
		e.G.Refresh(n)
		e.Out.Touch(n)
	}
	e.G.KindChanged(k.Prefix)
	e.wakeAdopted() // if what waited to be read first was of this kind
	e.AllMoved = true
}

// orphaned: an operation has ended whose kind is gone. If there is a new one,
// it finds out what is there now.
func (e *observer) orphaned(n *graph.Node) {
	late := n.Phase == graph.Overdue
	if e.G.BecomeIdle(n); late {
		e.clearHold(n)
	}
	if n.Kind != nil {
		e.G.SetActual(n, graph.ActualState{Presence: graph.Unknown}, false)
		e.markForRead(n)
	}
	e.G.Refresh(n)
	e.G.Wake(n)
}
