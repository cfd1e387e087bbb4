package scheduler

import "github.com/plumb-net/plumb/scheduler/graph"

// visit is a node that waits for others, for which, and how many of those are settled.
type visit struct {
	n       *graph.Node
	on      blocker
	by      *graph.Node // of a blocker that is one node
	settled int
}

// A pass over the graph says of each node once whether it is settled, by a mark:
// e.mark for yes, and these for what is not known yet, and for no.
const (
	onTrail = 1 + iota // added to e.mark
	isBusy
	marksOfPass
)

// busy reports whether something that follows by itself is still to come. It is for
// telling many nodes in one pass, see newPass.
func (e *engine) busy(n *graph.Node) bool {
	if e.settled(n) {
		return false
	}
	e.trailEnds(func(n *graph.Node) { n.Mark = e.mark + isBusy })
	n.Mark = e.mark + isBusy
	return true
}

// settled reports whether nothing that is under way or due can change the node.
// What is settled is so for the whole pass, so chains that keys share are
// walked once; where a node is not, trail is the way from it to what it waits
// for at the end, and the caller ends it. Chains are long: the way is a list and
// not the stack.
func (e *engine) settled(n *graph.Node) bool {
	base := len(e.trail)
	if !e.enter(n) {
		return false
	}
	for len(e.trail) > base {
		next, ok := e.nextOf(len(e.trail) - 1)
		switch {
		case !ok:
			return false
		case next == nil:
			e.leaveTrail()
		case !e.enter(next):
			return false
		}
	}
	return true
}

// enter looks at a node for the first time in a pass. It is false if the node
// is surely not settled. Whoever waits on the trail counts as settled: a circle
// that waits for itself alone is.
func (e *engine) enter(n *graph.Node) bool {
	switch n.Mark {
	case e.mark:
		return true
	case e.mark + isBusy:
		return false
	case e.mark + onTrail:
		e.circled = true
		return true
	}
	a := e.assess(n)
	busy := e.movesByItself(n, a)
	if n.Mark = e.mark; busy || a.waitsForOthers() {
		n.Mark = e.mark + onTrail
		e.trail = append(e.trail, visit{n: n, on: a.blocker, by: a.by})
	}
	return !busy
}

// leaveTrail takes the last node of the trail off, which is settled if all before it are
// that it waits for in a circle.
func (e *engine) leaveTrail() {
	last := len(e.trail) - 1
	n := e.trail[last].n
	n.Mark = e.mark
	if e.circled && last > 0 {
		e.unsure = append(e.unsure, n)
	}
	e.trail = e.trail[:last]
	if last == 0 {
		e.circled, e.unsure = false, e.unsure[:0]
	}
}

// trailEnds ends the trail of a node that is not settled; f is told every node on it.
func (e *engine) trailEnds(f func(*graph.Node)) {
	for _, n := range e.unsure {
		n.Mark = 0
	}
	for _, v := range e.trail {
		f(v.n)
	}
	clear(e.trail)
	e.trail, e.circled, e.unsure = e.trail[:0], false, e.unsure[:0]
}

// nextOf returns the next node that the one at place top of the trail waits for,
// nil if there is no other. ok is false if one was found not to be settled already.
func (e *engine) nextOf(top int) (next *graph.Node, ok bool) {
	n, on := e.trail[top].n, e.trail[top].on
	for i := e.trail[top].settled; ; i++ {
		var m *graph.Node
		switch on {
		case onStanders, onEnding:
			stander, more := n.Stander(i)
			if !more {
				return nil, true
			}
			m = stander
		case onNeeds:
			if i == len(n.Out) {
				return nil, true
			}
			edge := n.Out[i]
			switch {
			case !edge.OfDesired() || edge.State == graph.Satisfied:
			case edge.Prefix() == "":
				m = edge.To
			case !e.g.Below(edge.Prefix(), func(m *graph.Node) bool { return m == n || !m.Wanted() && !isRead(m) || e.settled(m) }):
				return nil, false
			}
		case onDerived, onPolicy:
			if n.X == nil || i == len(n.X.Children) {
				return nil, true
			}
			m = n.X.Children[i]
		default:
			if i > 0 {
				return nil, true
			}
			m = e.trail[top].by
		}
		if m != nil {
			e.trail[top].settled = i + 1
			return m, true
		}
	}
}

// isRead reports whether a node is being read, or is about to be: what nobody wants may
// turn out to be there.
func isRead(n *graph.Node) bool {
	return has(n, flagSuspect) || n.Moving && !has(n, flagRunning)
}

// movesByItself reports whether something about a node is due or under way, or will be when
// what is under way elsewhere has ended: an operation, or a first read. What cannot be
// read may never be.
func (e *engine) movesByItself(n *graph.Node, a assessment) bool {
	switch a.blocker {
	case onOperation, onUsers, onGround:
		return true
	case onKindRead:
		return kindOf(n).look.attempts == 0
	case onUnread:
		return !e.cannotRead()
	}
	return a.due != doNothing
}

// waitsForOthers reports whether a node moves when others have.
func (a assessment) waitsForOthers() bool {
	switch a.blocker {
	case onNeeds, onHolder, onPeer, onBase, onStanders, onEnding, onDerived, onPolicy:
		return true
	}
	return false
}
