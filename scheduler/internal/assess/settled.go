package assess

import (
	"slices"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// pathStep is a node that waits for others, for which, and how many of those are settled.
type pathStep struct {
	n       *graph.Node
	on      Blocker
	by      *graph.Node // of a blocker that is one node
	settled int
}

// A pass over the graph says of each node once whether it is settled, by a mark:
// Mark for yes, and these for what is not known yet, and for no.
const (
	onPath = 1 + iota // added to Mark
	isBusy
	MarksOfPass
)

// Busy reports whether something that follows by itself is still to come. It is for
// telling many nodes in one pass, see NewPass.
func (as *Assessor) Busy(n *graph.Node) bool {
	if as.Settled(n) {
		return false
	}
	as.EndPath(func(n *graph.Node) { n.Mark = as.Mark + isBusy })
	n.Mark = as.Mark + isBusy
	return true
}

// Settled reports whether nothing that is under way or due can change the node.
// What is settled is so for the whole pass, so chains that keys share are
// walked once; where a node is not, path is the way from it to what it waits
// for at the end, and the caller ends it. Chains are long: the way is a list and
// not the stack.
func (as *Assessor) Settled(n *graph.Node) bool {
	base := len(as.path)
	if !as.enter(n) {
		return false
	}
	for len(as.path) > base {
		next, ok := as.nextOf(len(as.path) - 1)
		switch {
		case !ok:
			return false
		case next == nil:
			as.popPath()
		case !as.enter(next):
			return false
		}
	}
	return true
}

// enter looks at a node for the first time in a pass. It is false if the node
// is surely not settled. Whoever waits on the path counts as settled: a cycle
// that waits for itself alone is.
func (as *Assessor) enter(n *graph.Node) bool {
	switch n.Mark {
	case as.Mark:
		return true
	case as.Mark + isBusy:
		return false
	case as.Mark + onPath:
		as.circled = true
		return true
	}
	a := as.Assess(n)
	busy := as.movesByItself(n, a)
	if a.Blocker == OnNothing && dependsOnUnsure(n) {
		a.Blocker = OnNeeds
	}
	if n.Mark = as.Mark; busy || a.waitsForOthers() {
		n.Mark = as.Mark + onPath
		as.path = append(as.path, pathStep{n: n, on: a.Blocker, by: a.By})
	}
	return !busy
}

// popPath takes the last node of the path off, which is settled if all before it are
// that it waits for in a cycle.
func (as *Assessor) popPath() {
	last := len(as.path) - 1
	n := as.path[last].n
	n.Mark = as.Mark
	if as.circled && last > 0 {
		as.unsure = append(as.unsure, n)
	}
	as.path = as.path[:last]
	if last == 0 {
		as.circled, as.unsure = false, as.unsure[:0]
	}
}

// EndPath ends the path of a node that is not settled; f is told every node on it.
func (as *Assessor) EndPath(f func(*graph.Node)) {
	for _, n := range as.unsure {
		n.Mark = 0
	}
	for _, v := range as.path {
		f(v.n)
	}
	clear(as.path)
	as.path, as.circled, as.unsure = as.path[:0], false, as.unsure[:0]
}

// nextOf returns the next node that the one at place top of the path waits for,
// nil if there is no other. ok is false if one was found not to be settled already.
func (as *Assessor) nextOf(top int) (next *graph.Node, ok bool) {
	n, on := as.path[top].n, as.path[top].on
	for i := as.path[top].settled; ; i++ {
		var m *graph.Node
		switch on {
		case OnDependents, OnEnding:
			stander, more := n.Dependent(i)
			if !more {
				return nil, true
			}
			m = stander
		case OnNeeds, OnDerived, OnPolicy:
			var children []*graph.Node
			if on != OnNeeds {
				children = childrenOf(n)
			}
			if i < len(children) {
				m = children[i]
				break
			}
			need := i - len(children)
			if need == len(n.Out) {
				return nil, true
			}
			edge := n.Out[need]
			switch {
			case !edge.OfDesired():
			case edge.State == graph.Satisfied:
				if isUnsure(edge.To) {
					m = edge.To
				}
			case as.isReadAll(edge):
				return nil, false
			case edge.Prefix() == "":
				m = edge.To
			case !as.G.Members(edge, func(m *graph.Node) bool { return m == n || staysAway(m, edge) || as.Settled(m) }):
				return nil, false
			}
		default:
			if i > 0 {
				return nil, true
			}
			m = as.path[top].by
		}
		if m != nil {
			as.path[top].settled = i + 1
			return m, true
		}
	}
}

// isReadAll reports whether all of the kind that meets a need is being read, or is about to be: that
// may show what is needed.
func (as *Assessor) isReadAll(e *graph.Edge) bool {
	if as.Reading == 0 && len(as.Looks) == 0 {
		return false
	}
	key := e.Prefix()
	if key == "" {
		key = e.To.Key
	}
	k := as.Kinds.Find(key)
	return k != nil && (k.Look.All || k.Look.Running)
}

// dependsOnUnsure reports whether a node needs a value that is unsure.
func dependsOnUnsure(n *graph.Node) bool {
	return n.Presence == graph.Present && slices.ContainsFunc(n.Out, func(e *graph.Edge) bool {
		return e.OfDesired() && e.State == graph.Satisfied && isUnsure(e.To)
	})
}

// isUnsure reports whether it is not known of a desired value in place whether its needs are met. If they turn
// out to be missing, it is deleted, and with it all values that need it.
func isUnsure(n *graph.Node) bool {
	return n != nil && n.Presence == graph.Present && n.Wanted() && n.Needs() == graph.Unsure
}

// staysAway reports whether a node that is not desired cannot meet a need any more: it is not being read, and
// no operation on it leaves the need unsure.
func staysAway(m *graph.Node, e *graph.Edge) bool {
	return !m.Wanted() && !isRead(m) && (e.State != graph.Unsure || !m.Busy())
}

// isRead reports whether a node is being read, or is about to be: what nobody wants may
// turn out to be there.
func isRead(n *graph.Node) bool {
	return Has(n, FlagNeedsRead) || n.BeingRead()
}

// movesByItself reports whether something about a node is due or under way, or will be when
// what is under way elsewhere has ended: an operation, or a first read; or when its turn
// comes. What cannot be read may never be.
func (as *Assessor) movesByItself(n *graph.Node, a Assessment) bool {
	switch a.Blocker {
	case OnOperation, OnUsers, OnNeededKind, OnBudget:
		return true
	case OnKindRead:
		return kind.Of(n).Look.Attempts == 0
	case OnUnread:
		return !as.cannotRead()
	}
	return a.Due != DoNothing
}

// waitsForOthers reports whether a node moves when others have.
func (a Assessment) waitsForOthers() bool {
	switch a.Blocker {
	case OnNeeds, OnHolder, OnPeer, OnBase, OnDependents, OnEnding, OnDerived, OnPolicy:
		return true
	}
	return false
}
