package scheduler

import (
	"errors"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// heldDown reports whether an observed thing that was seen to be gone is not yet
// believed to be: it may just be flapping. It is unknown meanwhile, which
// blocks and tears nothing down, and is read again when its time is up.
func (e *engine) heldDown(n *graph.Node) bool {
	if !n.Kind.Observed || n.Presence == graph.Absent || len(e.policies) == 0 {
		return false
	}
	d := e.policies.HoldDown(n.Key)
	if d == 0 {
		return false
	}
	x := e.g.Extra(n)
	if x.GoneAt == 0 {
		x.GoneAt = e.now.UnixNano()
	}
	rest := time.Unix(0, x.GoneAt).Add(d).Sub(e.now)
	if rest <= 0 {
		x.GoneAt = 0
		return false
	}
	e.g.SetWorld(n, graph.World{Presence: graph.Unknown, Actual: n.Actual, Meta: n.Meta}, true)
	e.hold(n, rest)
	return true
}

// back: it is there after all. What stands on it may have gone with it for a
// moment, and is read.
func (e *engine) back(n *graph.Node) {
	if n.X == nil || n.X.GoneAt == 0 {
		return
	}
	e.g.Extra(n).GoneAt = 0
	e.clearHold(n)
	n.Standers(func(d *graph.Node) bool { e.suspect(d); return true })
}

const (
	flapWindow = time.Minute
	freeFlaps  = 5 // in flapWindow, before what flaps has to wait
)

var errFlaps = errors.New("what it needs comes and goes")

// flapped notes that a node had to go, or has gone, because something observed
// that it needs went. Where that happens often it has to wait, each time longer,
// before it is made again.
func (e *engine) flapped(n *graph.Node) {
	if !missesObserved(e, n) {
		return
	}
	x := e.g.Extra(n)
	x.Flaps = e.onceMore(x.Flaps, flapWindow)
	if over := len(x.Flaps) - freeFlaps; over > 0 {
		x.CalmAt = e.now.Add(e.backoff(over)).UnixNano()
	}
}

// missesObserved reports whether it lacks, or may lack, something that comes by itself.
func missesObserved(e *engine, n *graph.Node) bool {
	for _, edge := range n.Out {
		if !edge.OfDesired() || edge.State == graph.Satisfied {
			continue
		}
		if k := e.kinds.find(needed(edge)); k != nil && k.Observed {
			return true
		}
	}
	return false
}

// needed is the key, or the prefix, that an edge points to.
func needed(edge *graph.Edge) Key {
	if p := edge.Prefix(); p != "" {
		return p
	}
	return edge.To.Key
}

// calmDown holds a node that could be made, where what it needs flaps.
func (e *engine) calmDown(n *graph.Node) {
	if n.X == nil || n.X.CalmAt == 0 || n.Presence != graph.Absent || n.Goal() == nil || n.Needs() != graph.Satisfied {
		return
	}
	rest := time.Unix(0, n.X.CalmAt).Sub(e.now)
	if rest <= 0 {
		e.g.Extra(n).CalmAt = 0
		return
	}
	if !has(n, flagHeld) {
		x := e.g.Extra(n)
		x.Err, x.Attempts = errFlaps, len(x.Flaps)-freeFlaps
		e.hold(n, rest)
	}
}
