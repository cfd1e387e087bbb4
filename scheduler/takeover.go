package scheduler

import "github.com/plumb-net/plumb/scheduler/graph"

// What somebody else made can be taken over by kinds that can give it back, and
// is given back when it is no longer wanted: it stays, and so does what stands
// on it.

// setTaken notes, after a creation, whether it took over what was found.
func (e *engine) setTaken(n *graph.Node, yes bool, found any) {
	if yes || taken(n) {
		x := e.g.Extra(n)
		x.Taken, x.Found = yes, found
	}
}

// gaveBack: it is somebody else's again, with the value that it was found with.
func (e *engine) gaveBack(n *graph.Node, found any) {
	e.setTaken(n, false, nil)
	e.setFlag(n, flagSame, false)
	e.g.SetActualNeeds(n, nil)
	e.rebuild(e.g.SetWorld(n, graph.World{Presence: graph.Present, Actual: found, Meta: n.Meta, Foreign: true}, false))
	e.suspect(n)
}
