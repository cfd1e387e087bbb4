package assess

import (
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

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
	MarksOfPass
)

// Busy reports whether something that follows by itself is still to come. It is for
// telling many nodes in one pass, see newPass.
func (as *Assessor) Busy(n *graph.Node) bool {
	if as.Settled(n) {
		return false
	}
	as.TrailEnds(func(n *graph.Node) { n.Mark = as.Mark + isBusy })
	n.Mark = as.Mark + isBusy
	return true
}

// Settled reports whether nothing that is under way or due can change the node.
// What is settled is so for the whole pass, so chains that keys share are
// walked once; where a node is not, trail is the way from it to what it waits
// for at the end, and the caller ends it. Chains are long: the way is a list and
// not the stack.
func (as *Assessor) Settled(n *graph.Node) bool {
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
func (as *Assessor) enter(n *graph.Node) bool {
	switch n.Mark {
	case as.Mark:
		return true
	case as.Mark + isBusy:
		return false
	case as.Mark + onTrail:
		as.circled = true
		return true
	}
	a := as.Assess(n)
	busy := as.movesByItself(n, a)
	if n.Mark = as.Mark; busy || a.waitsForOthers() {
		n.Mark = as.Mark + onTrail
		as.trail = append(as.trail, visit{n: n, on: a.Blocker, by: a.By})
	}
	return !busy
}

// leaveTrail takes the last node of the trail off, which is settled if all before it are
// that it waits for in a circle.
func (as *Assessor) leaveTrail() {
	last := len(as.trail) - 1
	n := as.trail[last].n
	n.Mark = as.Mark
	if as.circled && last > 0 {
		as.unsure = append(as.unsure, n)
	}
	as.trail = as.trail[:last]
	if last == 0 {
		as.circled, as.unsure = false, as.unsure[:0]
	}
}

// TrailEnds ends the trail of a node that is not settled; f is told every node on it.
func (as *Assessor) TrailEnds(f func(*graph.Node)) {
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
func (as *Assessor) nextOf(top int) (next *graph.Node, ok bool) {
	n, on := as.trail[top].n, as.trail[top].on
	for i := as.trail[top].settled; ; i++ {
		var m *graph.Node
		switch on {
		case OnStanders, OnEnding:
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
			case !as.G.Below(edge.Prefix(), func(m *graph.Node) bool { return m == n || !m.Wanted() && !isRead(m) || as.Settled(m) }):
				return nil, false
			}
		case OnDerived, onPolicy:
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
	return Has(n, FlagNeedsRead) || n.BeingRead()
}

// movesByItself reports whether something about a node is due or under way, or will be when
// what is under way elsewhere has ended: an operation, or a first read. What cannot be
// read may never be.
func (as *Assessor) movesByItself(n *graph.Node, a Assessment) bool {
	switch a.Blocker {
	case OnOperation, OnUsers, OnGround:
		return true
	case onKindRead:
		return kind.Of(n).Look.Attempts == 0
	case OnUnread:
		return !as.cannotRead()
	}
	return a.Due != DoNothing
}

// waitsForOthers reports whether a node moves when others have.
func (a Assessment) waitsForOthers() bool {
	switch a.Blocker {
	case onNeeds, OnHolder, OnPeer, OnBase, OnStanders, OnEnding, OnDerived, onPolicy:
		return true
	}
	return false
}
