package scheduler

import (
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// outside is where the engine's decisions lead: to the world, and to those that follow it.
// It is the loop, or a preview, in which operations succeed at once, nothing is
// read and nobody is told.
type outside interface {
	// begin takes an operation that is due.
	begin(o *op, a assessment)
	// full reports whether all that is due begins at once, without a window.
	full() bool
	// queueLook has a node read.
	queueLook(n *graph.Node)
	// afterRead has a node considered again when a read of the kind has ended.
	afterRead(k *kind, n *graph.Node)
	// mayHaveGone has those read that were found to stand on a node while it was away.
	mayHaveGone(n *graph.Node)
	// moved tells that something about a node changed in this turn.
	moved(n *graph.Node)
	// tellInterest tells a kind whether somebody needs the node.
	tellInterest(n *graph.Node, k *kind)
	// flapped notes that a node goes, or has gone, because something observed that it
	// needs went; calmDown holds one back to which that happens often.
	flapped(n *graph.Node)
	calmDown(n *graph.Node)
	// unblock tries those again whose operations wait for a node, unwait forgets that one
	// does.
	unblock(n *graph.Node)
	unwait(n *graph.Node)
	// speak notes the complete word of a source.
	speak(src int8)
	// retryAt has a node tried again at a time.
	retryAt(n *graph.Node, at time.Time)
}

// begin marks that an operation is under way.
func (e *engine) begin(o *op, a assessment) {
	n, making := o.n, a.due == doCreate || a.due == doUpdate
	if !making && n.Goal() != nil {
		e.flapped(n)
	}
	e.stamp++
	n.Stamp = e.stamp
	if n.X != nil {
		n.X.Lapsed = false
	}
	e.setFlag(n, flagRunning, true)
	e.g.SetMoving(n, true, making)
}

func (e *engine) afterRead(k *kind, n *graph.Node) { k.look.waiting = append(k.look.waiting, n) }

func (e *engine) mayHaveGone(n *graph.Node) {
	n.Standers(func(d *graph.Node) bool { e.suspect(d); return true })
}

func (e *engine) moved(n *graph.Node) {
	if !has(n, flagTouched) {
		n.Flags |= flagTouched
		e.touched = graph.Push(e.touched, n)
	}
}

func (e *engine) retryAt(n *graph.Node, at time.Time) {
	e.retries.addNode(at, n)
	e.arm()
}
