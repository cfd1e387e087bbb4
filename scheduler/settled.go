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
func (as *assessor) busy(n *graph.Node) bool {
	if as.settled(n) {
		return false
	}
	as.trailEnds(func(n *graph.Node) { n.Mark = as.mark + isBusy })
	n.Mark = as.mark + isBusy
	return true
}

// settled reports whether nothing that is under way or due can change the node.
// What is settled is so for the whole pass, so chains that keys share are
// walked once; where a node is not, trail is the way from it to what it waits
// for at the end, and the caller ends it. Chains are long: the way is a list and
// not the stack.
func (as *assessor) settled(n *graph.Node) bool {
	base := len(as.trail)
	if !as.enter(n) {
		return false
	}
	for len(as.trail) > base {
		next, ok := as.nextOf(len(as.trail) - 1)
		switch {
		case !ok:
			return false
		case next == nil:
			as.leaveTrail()
		case !as.enter(next):
			return false
		}
	}
	return true
}

// enter looks at a node for the first time in a pass. It is false if the node
// is surely not settled. Whoever waits on the trail counts as settled: a circle
// that waits for itself alone is.
func (as *assessor) enter(n *graph.Node) bool {
	switch n.Mark {
	case as.mark:
		return true
	case as.mark + isBusy:
		return false
	case as.mark + onTrail:
		as.circled = true
		return true
	}
	a := as.assess(n)
	busy := as.movesByItself(n, a)
	if n.Mark = as.mark; busy || a.waitsForOthers() {
		n.Mark = as.mark + onTrail
		as.trail = append(as.trail, visit{n: n, on: a.blocker, by: a.by})
	}
	return !busy
}

// leaveTrail takes the last node of the trail off, which is settled if all before it are
// that it waits for in a circle.
func (as *assessor) leaveTrail() {
	last := len(as.trail) - 1
	n := as.trail[last].n
	n.Mark = as.mark
	if as.circled && last > 0 {
		as.unsure = append(as.unsure, n)
	}
	as.trail = as.trail[:last]
	if last == 0 {
		as.circled, as.unsure = false, as.unsure[:0]
	}
}

// trailEnds ends the trail of a node that is not settled; f is told every node on it.
func (as *assessor) trailEnds(f func(*graph.Node)) {
	for _, n := range as.unsure {
		n.Mark = 0
	}
	for _, v := range as.trail {
		f(v.n)
	}
	clear(as.trail)
	as.trail, as.circled, as.unsure = as.trail[:0], false, as.unsure[:0]
}

// nextOf returns the next node that the one at place top of the trail waits for,
// nil if there is no other. ok is false if one was found not to be settled already.
func (as *assessor) nextOf(top int) (next *graph.Node, ok bool) {
	n, on := as.trail[top].n, as.trail[top].on
	for i := as.trail[top].settled; ; i++ {
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
			case !as.g.Below(edge.Prefix(), func(m *graph.Node) bool { return m == n || !m.Wanted() && !isRead(m) || as.settled(m) }):
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
			m = as.trail[top].by
		}
		if m != nil {
			as.trail[top].settled = i + 1
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
func (as *assessor) movesByItself(n *graph.Node, a assessment) bool {
	switch a.blocker {
	case onOperation, onUsers, onGround:
		return true
	case onKindRead:
		return kindOf(n).look.attempts == 0
	case onUnread:
		return !as.cannotRead()
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
