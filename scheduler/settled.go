package scheduler

import "github.com/plumb-net/plumb/scheduler/graph"

// visit is a node that waits for others, and how many of those are settled.
type visit struct {
	n       *graph.Node
	on      waitsOn
	settled int
}

// waitsOn says for what a node that is not at rest may be waiting.
type waitsOn uint8

const (
	atRest    waitsOn = iota
	onItself          // something about it is under way or due
	onPins            // for what stands on it to go
	onMissing         // for what it needs
	onHolder          // for who has its name
	onPeer            // for its old peer to go
	onDerived         // for what it derives
	onBase            // for what derives it, or did
)

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
	on := e.waitsOn(n)
	if n.Mark = e.mark; on != atRest {
		n.Mark = e.mark + onTrail
		e.trail = append(e.trail, visit{n: n, on: on})
	}
	return on != onItself
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
		case onPins:
			stander, more := n.Stander(i)
			if !more {
				return nil, true
			}
			m = stander
		case onMissing:
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
		case onHolder:
			if i > 0 {
				return nil, true
			}
			_, m = n.Holder()
		case onPeer:
			if i > 0 {
				return nil, true
			}
			m = oldPeer(n)
		case onBase:
			if i > 0 {
				return nil, true
			}
			m = n.Base
		case onDerived:
			if n.X == nil || i == len(n.X.Children) {
				return nil, true
			}
			m = n.X.Children[i]
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

// waitsOn reports whether a node is at rest, or for what it may be waiting.
func (e *engine) waitsOn(n *graph.Node) waitsOn {
	k, x := kindOf(n), n.X
	switch {
	case n.Dropped(), k == nil:
		return atRest
	case x != nil && x.Overdue:
		return atRest
	case n.Moving:
		return onItself
	case n.Presence == graph.Unknown && k.unread() && k.look.attempts > 0:
		if n.Goal() != nil && n.Needs() != graph.Satisfied {
			return onMissing
		}
		return atRest // it is read with all of its kind, which may be never
	case has(n, flagSuspect) && k.retrieve != nil:
		return onItself
	case e.held(n), broke(n):
		return atRest
	}
	goal := n.Goal()
	switch {
	case n.Presence == graph.Unknown:
		if k.retrieve == nil && goal != nil && waitsForPeer(n) {
			return onPeer
		}
		return onItself
	case k.Observed:
		return atRest
	case goal == nil && (n.Presence == graph.Absent || n.Foreign):
		return atRest
	case goal == nil && !has(n, flagWithdrawn) && !e.mayDelete() && !n.Wanted():
		return atRest
	case has(n, flagAdopted) && !n.Leaving && (goal == nil || !has(n, flagSame) || n.Needs() == graph.Missing) && e.cannotRead():
		return atRest // it stays until that can be read, which may be never
	case n.Leaving:
		if n.Standing > 0 {
			return onPins
		}
		return onItself
	case goal == nil && staysWithBase(n):
		return onBase
	case goal == nil:
		return onItself
	case n.Needs() != graph.Satisfied:
		return onMissing
	case baseUntried(n) && !has(n, flagSame):
		return onBase
	case left(n):
		return onDerived
	case n.Ending() != nil:
		return onPins
	case n.Presence == graph.Absent, !has(n, flagSame):
		if _, h := n.Holder(); h != nil {
			return onHolder
		}
		if waitsForPeer(n) {
			return onPeer
		}
		return onItself
	}
	if x == nil {
		return atRest
	}
	return onDerived
}
