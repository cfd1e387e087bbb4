package scheduler

import (
	"slices"

	"github.com/plumb-net/plumb/scheduler/graph"
)

func (e *engine) register(k *kind, startWatch func(*kind)) error {
	if err := e.kinds.add(k); err != nil {
		return err
	}
	var waiting []*graph.Node
	e.g.Below(k.Prefix, func(n *graph.Node) bool { waiting = append(waiting, n); return true })
	slices.SortFunc(waiting, byKey)
	for _, n := range waiting {
		n.Kind = &k.Kind
		e.g.Start(n)
		e.reapply(n)
	}
	e.g.KindChanged(k.Prefix)
	e.recheckAll = true
	e.lookAtKind(k)
	e.readAgainAfter(k)
	if k.watch != nil {
		startWatch(k)
	}
	return nil
}

// reapply judges a want again, now that its kind is known.
func (e *engine) reapply(n *graph.Node) {
	e.g.Wake(n)
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
	if validate(kindOf(n), n.Key, n.Desired) != nil { // nor was the value before it judged
		e.setDesired(n, nil)
	} else {
		e.setDesired(n, n.Desired) // now its needs are known
	}
}

func (e *engine) unregister(k *kind) {
	if k.stop != nil {
		k.stop()
	}
	e.kinds.remove(k)
	k.view.close()
	k.look = kindLook{listed: k.look.listed}
	var nodes []*graph.Node
	e.g.Below(k.Prefix, func(n *graph.Node) bool { nodes = append(nodes, n); return true })
	slices.SortFunc(nodes, byKey)
	for _, n := range nodes {
		e.setFlag(n, flagSame|flagSuspect|flagStale, false)
		e.clearHold(n)
		n.Kind = nil
		delete(e.unseen, n)
		n.Gen++
		was := actualOf(n)
		e.g.SetWorld(n, graph.World{}, true)
		e.saw(n, was, false)
		e.g.Refresh(n)
		e.touch(n)
	}
	e.g.KindChanged(k.Prefix)
	e.wakeAdopted() // if what waited to be read first was of this kind
	e.recheckAll = true
}

// orphaned: an operation has ended whose kind is gone. If there is a new one,
// it finds out what is there now.
func (e *engine) orphaned(n *graph.Node) {
	e.setFlag(n, flagRunning, false)
	n.Moving = false
	if n.X != nil && n.X.Overdue {
		e.g.Extra(n).Overdue = false
		e.clearHold(n)
	}
	if n.Kind != nil {
		e.g.SetWorld(n, graph.World{Presence: graph.Unknown}, false)
		e.suspect(n)
	}
	e.g.Refresh(n)
	e.g.Wake(n)
}
