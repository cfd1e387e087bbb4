package graph

import (
	"slices"
)

// Graph is all nodes. See the package documentation.
//
// It is built on two floors: needs says what is met by what, and a store keeps the nodes, the
// list of those to evaluate, and the journal.
type Graph struct {
	needs
	claims map[string]*Claim
	broken error // a change of phase that there is not, or of what was only tried
	// CheckTry has the graph compared before and after the first that is tried, and then
	// sometimes, for that costs much; tests set it.
	CheckTry bool
	tries    int
}

// store keeps the nodes.
type store struct {
	nodes  *table
	dirs   map[string]*Dir
	last   *Dir    // that a node was put into
	dirty  []*Node // to evaluate, from head on
	head   int
	kindOf func(Key) *Kind

	// Cause and Via are stamped on every node that is woken: the transaction
	// being worked on, and the node through which it reaches others.
	Cause uint64
	Via   *Node

	trying  bool
	journal journal
}

// New makes an empty graph; kindOf finds the kind of a key, nil for none.
func New(kindOf func(Key) *Kind) *Graph {
	g := &Graph{claims: map[string]*Claim{}}
	g.nodes, g.kindOf = newTable(), kindOf
	g.dirs, g.changes = map[string]*Dir{"": {}}, map[*Node]change{}
	return g
}

// Grow makes room for n nodes more, and for as many to evaluate.
func (g *store) Grow(n int) {
	g.dirty = slices.Grow(g.dirty, n)
	if n > g.nodes.count && !g.trying { // else it grows by itself without being copied often
		g.nodes.grow(n)
	}
}

// Get returns the node of a key, nil if there is none.
func (g *store) Get(k Key) *Node { return g.nodes.get(k) }

// Node returns the node of a key and makes it if needed.
func (g *Graph) Node(k Key) *Node {
	part, hash, n := g.nodes.find(k)
	if n == nil {
		n = g.newNode(k, part, hash)
	}
	return n
}

func (g *Graph) newNode(k Key, part *part, hash uint64) *Node {
	n := &Node{}
	n.Key, n.Kind, n.Source, n.avail = k, g.kindOf(k), NoSource, Missing
	g.nodes.put(part, hash, n)
	g.enterDir(n)
	if g.trying {
		g.undo(func() { g.nodes.remove(k); g.leaveDir(n); g.pruneDir(n.dir) })
	}
	g.Start(n)
	return n
}

// Start sets what is believed of a node that was never looked at.
func (g *Graph) Start(n *Node) {
	g.Save(n)
	n.Presence = Absent
	if k := n.Kind; k != nil && k.Reads && (!k.Read || k.OnDemand) {
		n.Presence = Unknown
	}
	g.updateMayExist(n)
	g.refresh(n, false)
}

// Drop forgets a node that nobody wants, needs or sees. It reports whether it did.
func (g *Graph) Drop(n *Node) bool {
	if n.Wanted() || n.Presence != Absent || len(n.In) > 0 || n.Busy() || n.Dependents > 0 || n.Dropped() || g.trying {
		return false
	}
	if n.Desired != nil || n.names != nil {
		return false
	}
	for _, e := range n.Out {
		g.detach(e)
	}
	n.Out = nil
	if n.avail == Unsure {
		n.watchesOf(func(p *Prefix) { p.unsure-- })
	}
	g.nodes.remove(n.Key)
	g.leaveDir(n)
	g.pruneDir(n.dir)
	return true
}

// Parts is how many parts the nodes are in; see Part.
const Parts = 1 << partBits

// Part calls f for every node of one part, and returns how many they are. A node stays in its
// part: going through the parts one by one, with other work in between, meets each node that
// is there all the time once.
func (g *store) Part(i int, f func(*Node)) int { return g.nodes.part(i, f) }

// All calls f for every node, in no order, until it returns false.
func (g *store) All(f func(*Node) bool) { g.nodes.all(f) }

// Wake puts a node on the list of those to evaluate again. What has no cause
// of its own leaves the node the one it had.
func (g *store) Wake(n *Node) {
	if n.queued || n.Dropped() {
		return
	}
	n.queued = true
	g.dirty = Push(g.dirty, n)
	if n != g.Via && g.Cause != 0 {
		g.Save(n)
		n.Cause, n.Via = g.Cause, g.Via
	}
}

// Dirty returns the next node to evaluate, nil when there is none.
func (g *store) Dirty() *Node {
	for g.head < len(g.dirty) {
		n := g.dirty[g.head]
		g.dirty[g.head] = nil
		g.head++
		if !n.Dropped() {
			n.queued = false
			return n
		}
	}
	g.dirty, g.head = g.dirty[:0], 0
	if cap(g.dirty) > maxSpare {
		g.dirty = nil
	}
	return nil
}

const maxSpare = 1 << 14 // room that is kept for the next time

// Push appends and doubles the room when it is used up: append itself grows
// long slices by a quarter, which makes four times as much garbage.
func Push[T any](s []T, v T) []T {
	if len(s) == cap(s) {
		s = slices.Grow(s, max(len(s), 8))
	}
	return append(s, v)
}

// ActualState is what is believed to be there of a node.
type ActualState struct {
	Presence     Presence
	Actual, Meta any
	Foreign      bool
	// Change says what is to become of a value that is in place.
	Change ToCome
	// Then is what it becomes, with FromThis; nil: the desired value.
	Then any
}

// ToCome is the change that is to come of a value in place; see AnnounceChange.
type ToCome uint8

// The changes.
const (
	NoChange    ToCome = iota // none, as far as is known
	AsAnnounced               // the one that was announced before, if any
	FromThis                  // from this value
)

// SetActual changes what is believed to be there of a node. seen tells that it
// was read, as opposed to changed by an operation of ours. It returns
// the nodes that were built with a part of the node that is no longer so.
func (g *Graph) SetActual(n *Node, a ActualState, seen bool) (stale []Stale) {
	g.Save(n)
	valueMoved := a.Presence != n.Presence || a.Presence == Present
	n.Presence, n.Actual, n.Meta, n.Foreign = a.Presence, a.Actual, a.Meta, a.Foreign
	if a.Presence == Absent {
		if n.Leaving {
			n.Peers(g.Wake)
		}
		n.Leaving = false
	}
	if a.Presence == Absent || a.Foreign { // what is not ours depends on nothing of ours
		g.SetActualNeeds(n, nil)
	}
	switch {
	case a.Presence == Present && !a.Foreign && a.Change == FromThis:
		was := g.changes[n]
		g.setChange(n, &change{was: a.Actual, then: a.Then, givenUp: was.givenUp || n.Held() == UntilChange, deferred: was.deferred})
	case a.Presence == Present && !a.Foreign && a.Change == AsAnnounced, a.Presence == Unknown:
	case g.Changing(n):
		g.setChange(n, nil)
	}
	g.own(n)
	g.updateMayExist(n)
	g.refresh(n, valueMoved)
	if valueMoved {
		stale = g.stale(n, seen)
	}
	g.rejudgeCycles()
	g.Wake(n)
	return stale
}

// SetLeaving marks that the node must go.
func (g *Graph) SetLeaving(n *Node, leaving bool) {
	if n.Leaving == leaving {
		return
	}
	g.Save(n)
	n.Leaving = leaving
	n.Peers(g.Wake) // none of them is made while it is on its way out
	g.refresh(n, false)
	for _, c := range n.claims().hold {
		g.wakeAll(c.wanters)
	}
}

// SetFrozen marks that an operator holds the node. It reports whether that changed; then the
// caller refreshes the node when it is known whether the node leaves.
func (g *Graph) SetFrozen(n *Node, frozen bool) (changed bool) {
	if n.Frozen == frozen {
		return false
	}
	g.Save(n)
	n.Frozen = frozen
	g.Wake(n)
	return true
}

func (g *store) wakeAll(nodes []*Node) {
	for _, n := range nodes {
		g.Wake(n)
	}
}

// Refresh judges the node anew after its kind changed, or whether it is held.
func (g *Graph) Refresh(n *Node) { g.refresh(n, false) }

// EachIncoming calls f for every edge that ends at n: those that need its key, and those that
// need any below a prefix and stand on n, or did last.
func (n *Node) EachIncoming(f func(*Edge)) {
	for _, e := range n.In {
		f(e)
	}
	n.watchesOf(func(p *Prefix) {
		for _, e := range p.in {
			if e.To == n {
				f(e)
			}
		}
	})
}

// EachDependent calls f for every node whose actual value depends on n, until it returns
// false.
func (n *Node) EachDependent(f func(*Node) bool) {
	for i := 0; ; i++ {
		m, more := n.Dependent(i)
		if !more || m != nil && !f(m) {
			return
		}
	}
}

// Dependent is for going through the nodes whose actual value depends on n, from 0 on
// while there is more; some numbers have none. The newest come first: when all
// must go, they are the last to, so whoever waits for all of them finds one
// that is left at once.
func (n *Node) Dependent(i int) (m *Node, more bool) {
	if last := len(n.In) - 1; i <= last {
		if e := n.In[last-i]; e.is(counted) {
			return e.From, true
		}
		return nil, true
	}
	i -= len(n.In)
	n.watchesOf(func(p *Prefix) {
		if i >= 0 && i < len(p.in) {
			if e := p.in[i]; e.To == n && e.is(counted) {
				m = e.From
			}
			more = true
		}
		i -= len(p.in)
	})
	return m, more
}
