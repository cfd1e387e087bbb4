package scheduler

import (
	"fmt"
	"slices"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// Unregister removes a kind. Its values become unimplemented; what stands on
// them leaves. Nothing of the kind itself is touched in the world, and nobody
// knows any more what it stands on there, so that may go; operations of it that
// are under way end by themselves, and their outcome counts no more. The error
// says that no kind has that name, or is ErrStopped.
func (s *Scheduler) Unregister(name string) error {
	var failed error
	err := s.call(func(l *loop) {
		for _, k := range l.kinds.all() {
			if k.Name == name {
				l.because("", "kind "+name+" is unregistered", func() { l.unregister(k) })
				return
			}
		}
		failed = fmt.Errorf("no kind %q is registered", name)
	})
	if err != nil {
		return err
	}
	return failed
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
