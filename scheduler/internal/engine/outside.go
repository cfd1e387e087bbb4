package engine

import (
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// Outside is where the engine's decisions lead: to operations and reads, and to those
// that follow them.
// It is the loop, or a preview, in which operations succeed at once, nothing is
// read and nobody is told.
type Outside interface {
	// Begin takes an operation that is due.
	Begin(o *kind.Op, a assess.Assessment)
	// Full reports whether all that is due begins at once, without a window.
	Full() bool
	// MayDisrupt reports whether a node that is to go may begin to, by the budget of its
	// kind. If not, it is woken when its turn comes.
	MayDisrupt(n *graph.Node) bool
	// QueueLook has a node read.
	QueueLook(n *graph.Node)
	// AfterRead has a node evaluated again when a read of the kind has ended.
	AfterRead(k *kind.Kind, n *graph.Node)
	// RecheckDependents has those read that were found to depend on a node while it was away.
	RecheckDependents(n *graph.Node)
	// Touch notes that something about a node changed in this turn.
	Touch(n *graph.Node)
	// TellInterest tells a kind whether somebody needs the node.
	TellInterest(n *graph.Node, k *kind.Kind)
	// Flapped notes that a node goes, or has gone, because something observed that it
	// needs went; DampFlaps holds one back to which that happens often.
	Flapped(n *graph.Node)
	DampFlaps(n *graph.Node)
	// ChangedBy says who changed a node that was found to have drifted; "" if nobody knows.
	ChangedBy(n *graph.Node) string
	// Unblock tries those again whose operations wait for a node, Unwait forgets that one
	// does.
	Unblock(n *graph.Node)
	Unwait(n *graph.Node)
	// SourceSynced notes the complete snapshot of a source.
	SourceSynced(src int8)
	// RetryAt has a node tried again at a time.
	RetryAt(n *graph.Node, at time.Time)
}

// Begin marks that an operation is under way.
func (e *Engine) Begin(o *kind.Op, a assess.Assessment) {
	n, making := o.Node, a.Due == assess.DoCreate || a.Due == assess.DoUpdate
	if !making && n.Goal() != nil {
		e.Flapped(n)
	}
	e.stamp++
	n.Stamp = e.stamp
	if n.X != nil {
		n.X.Lapsed = false
	}
	e.G.BecomeOperating(n, making)
}

// AfterRead puts a node on the list of those that wait for a read of the kind.
func (e *observer) AfterRead(k *kind.Kind, n *graph.Node) { k.Look.Waiting = append(k.Look.Waiting, n) }

// RecheckDependents has those read that depend on a node.
func (e *observer) RecheckDependents(n *graph.Node) {
	n.EachDependent(func(d *graph.Node) bool { e.markForRead(d); return true })
}

// ChangedBy asks the kind of a node who has changed it.
func (e *observer) ChangedBy(n *graph.Node) string {
	if k := kind.Of(n); k != nil && k.ChangedBy != nil {
		return k.ChangedBy(n.Key)
	}
	return ""
}

// Touch puts a node on the list of those to tell of.
func (e *Engine) Touch(n *graph.Node) {
	if !assess.Has(n, assess.FlagTouched) {
		n.Flags |= assess.FlagTouched
		e.Touched = graph.Push(e.Touched, n)
	}
}

// RetryAt has a node tried again at a time.
func (e *nodes) RetryAt(n *graph.Node, at time.Time) {
	e.Retries.addNode(at, n)
	e.Arm()
}
