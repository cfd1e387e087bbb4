package engine

import (
	"errors"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// heldDown reports whether an observed thing that was seen to be gone is not yet
// believed to be: it may just be flapping. It is unknown meanwhile, which
// blocks and tears nothing down, and is read again when its time is up.
func (e *observer) heldDown(n *graph.Node) bool {
	if !n.Kind.Observed || n.Presence == graph.Absent || len(e.Policies) == 0 {
		return false
	}
	d := e.Policies.HoldDown(n.Key)
	if d == 0 {
		return false
	}
	x := e.G.Extra(n)
	if x.GoneAt == 0 {
		x.GoneAt = e.Now.UnixNano()
	}
	rest := time.Unix(0, x.GoneAt).Add(d).Sub(e.Now)
	if rest <= 0 {
		x.GoneAt = 0
		return false
	}
	e.G.SetActual(n, graph.ActualState{Presence: graph.Unknown, Actual: n.Actual, Meta: n.Meta}, true)
	e.hold(n, rest)
	return true
}

// back: it is there after all. What depends on it may have gone with it for a
// moment, and is read.
func (e *observer) back(n *graph.Node) {
	if n.X == nil || n.X.GoneAt == 0 {
		return
	}
	e.G.Extra(n).GoneAt = 0
	e.clearHold(n)
	e.RecheckDependents(n)
}

const (
	flapWindow = time.Minute
	freeFlaps  = 5 // in flapWindow, before what flaps has to wait
)

var errFlaps = errors.New("what it needs comes and goes")

// Flapped notes that a node had to go, or has gone, because something observed
// that it needs went. Where that happens often it has to wait, each time longer,
// before it is made again.
func (e *observer) Flapped(n *graph.Node) {
	if !missesObserved(e, n) {
		return
	}
	x := e.G.Extra(n)
	x.Flaps = e.onceMore(x.Flaps, flapWindow)
	if over := len(x.Flaps) - freeFlaps; over > 0 {
		x.CalmAt = e.Now.Add(e.Backoff(over)).UnixNano()
	}
}

// missesObserved reports whether it lacks, or may lack, something that comes by itself.
func missesObserved(e *observer, n *graph.Node) bool {
	for _, edge := range n.Out {
		if !edge.OfDesired() || edge.State == graph.Satisfied {
			continue
		}
		if k := e.Kinds.Find(needed(edge)); k != nil && k.Observed {
			return true
		}
	}
	return false
}

// needed is the key, or the prefix, that an edge points to.
func needed(edge *graph.Edge) kv.Key {
	if p := edge.Prefix(); p != "" {
		return p
	}
	return edge.To.Key
}

// DampFlaps holds a node that could be made, where what it needs flaps.
func (e *observer) DampFlaps(n *graph.Node) {
	if n.X == nil || n.X.CalmAt == 0 || n.Presence != graph.Absent || n.Goal() == nil || n.Needs() != graph.Satisfied {
		return
	}
	rest := time.Unix(0, n.X.CalmAt).Sub(e.Now)
	if rest <= 0 {
		e.G.Extra(n).CalmAt = 0
		return
	}
	if n.Held() == graph.NotHeld {
		x := e.G.Extra(n)
		x.Err, x.Attempts = errFlaps, len(x.Flaps)-freeFlaps
		e.hold(n, rest)
	}
}
