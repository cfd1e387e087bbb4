package engine

import (
	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
)

// What somebody else made can be taken over by kinds that can give it back, and
// is given back when it is no longer wanted: it stays, and so does what depends
// on it.

// setTaken notes, after a creation, whether it took over what was found.
func (e *nodes) setTaken(n *graph.Node, yes bool, found any) {
	if yes || assess.Taken(n) {
		x := e.G.Extra(n)
		x.Taken, x.Found = yes, found
	}
}

// gaveBack: it is somebody else's again, with the value that it was found with.
func (e *observer) gaveBack(n *graph.Node, found any) {
	e.setTaken(n, false, nil)
	e.SetFlag(n, assess.FlagSame, false)
	e.G.SetActualNeeds(n, nil)
	e.rebuild(e.G.SetActual(n, graph.ActualState{Presence: graph.Present, Actual: found, Meta: n.Meta, Foreign: true}, false))
	e.markForRead(n)
}
