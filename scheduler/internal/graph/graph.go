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

// needs says how needs are met, and keeps what depends on what free of cycles.
type needs struct {
	store
	// cycles are edges that do not count because they would close a cycle.
	cycles []*Edge
	// creating is about to be in the world: what it needs is judged as if it were, but
	// its own needs do not order it yet. Else one of them that closes a cycle
	// would have it lifted above itself, without end, while another is judged.
	creating *Node
	together int // how many together needs there are
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
	g.dirs = map[string]*Dir{"": {}}
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
	if n.Desired != nil || n.hasClaims() {
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

// World is what is said of a node's side in the world.
type World struct {
	Presence     Presence
	Actual, Meta any
	Foreign      bool
}

// SetWorld changes what is believed to be in the world. seen tells that the
// world was read, as opposed to changed by an operation of ours. It returns
// the nodes that were built with a part of the node that is no longer so.
func (g *Graph) SetWorld(n *Node, w World, seen bool) (stale []Stale) {
	g.Save(n)
	valueMoved := w.Presence != n.Presence || w.Presence == Present
	n.Presence, n.Actual, n.Meta, n.Foreign = w.Presence, w.Actual, w.Meta, w.Foreign
	if w.Presence == Absent {
		if n.Leaving {
			n.Peers(g.Wake)
		}
		n.Leaving = false
	}
	if w.Presence == Absent || w.Foreign { // what is not ours depends on nothing of ours
		g.setActualNeeds(n, nil, false)
		if n.X != nil && n.X.Was != nil {
			g.Extra(n).Was = nil // nothing of ours is about to change
		}
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

// use marks what an operation that begins needs to be as it is: it must not be
// changed in place before Unuse.
func (g *needs) use(n *Node) {
	for _, e := range n.Out {
		if e.fn == nil || e.fn.uses != nil || e.To == nil || e.role&ofDesired == 0 || e.fn.need.Pass == nil && e.fn.need.Project == nil {
			continue
		}
		g.saveEdge(e)
		g.Save(e.To)
		e.fn.uses = e.To
		e.To.Used++
	}
}

// Unuse marks that the operation on n has ended.
func (g *needs) Unuse(n *Node) {
	for _, e := range n.Out {
		g.unuse(e)
	}
}

func (g *needs) unuse(e *Edge) {
	if e.fn == nil || e.fn.uses == nil {
		return
	}
	g.saveEdge(e)
	t := e.fn.uses
	e.fn.uses = nil
	g.Save(t)
	if t.Used--; t.Used == 0 {
		g.Wake(t)
	}
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
	if n.X != nil {
		for _, c := range n.X.hold {
			g.wakeAll(c.wanters)
		}
	}
}

// SetFrozen marks that an operator holds the node.
func (g *Graph) SetFrozen(n *Node, frozen bool) {
	if n.Frozen == frozen {
		return
	}
	g.Save(n)
	n.Frozen = frozen
	g.refresh(n, false)
	g.Wake(n)
}

func (g *store) wakeAll(nodes []*Node) {
	for _, n := range nodes {
		g.Wake(n)
	}
}

// Refresh judges the node anew after its kind changed.
func (g *Graph) Refresh(n *Node) { g.refresh(n, false) }

func inWorld(n *Node) bool {
	return n.Kind != nil && !n.Kind.Observed && n.Presence != Absent
}

func (g *needs) updateMayExist(n *Node) { g.setMayExist(n, inWorld(n)) }

func (g *needs) setMayExist(n *Node, grounded bool) {
	if n.MayExist == grounded {
		return
	}
	if grounded {
		g.creating = n
		for _, e := range n.Out {
			g.recheck(e)
		}
		g.creating = nil
	}
	n.MayExist = grounded
	for _, e := range n.Out {
		g.updateCounted(e)
	}
}

// eachIncoming calls f for every edge that ends at n: those that need its key, and those that
// need any below a prefix and stand on n, or did last.
func (n *Node) eachIncoming(f func(*Edge)) {
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

// EachDependent calls f for every node whose world depends on n, until it returns
// false.
func (n *Node) EachDependent(f func(*Node) bool) {
	for i := 0; ; i++ {
		m, more := n.Dependent(i)
		if !more || m != nil && !f(m) {
			return
		}
	}
}

// Dependent is for going through the nodes whose world depends on n, from 0 on
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

func (g *needs) addDependents(t *Node, by int32) {
	g.Save(t)
	t.Dependents += by
	if t.Dependents == 0 || by < 0 && t.X != nil && t.X.Was != nil {
		g.Wake(t)
	}
}

// refresh recomputes how n satisfies others and tells them.
func (g *needs) refresh(n *Node, valueMoved bool) {
	now := n.availability()
	was := n.avail
	if now == was && !valueMoved {
		return
	}
	g.Save(n)
	n.avail = now
	for _, e := range n.In {
		if now != was || e.fn != nil {
			g.judge(e)
		}
	}
	n.watchesOf(func(p *Prefix) {
		g.savePrefix(p)
		if was == Unsure {
			p.unsure--
		}
		if now == Unsure {
			p.unsure++
		}
		for _, e := range p.in {
			g.judgeAny(e, n)
		}
	})
}

// judge sets the state of an edge to one node.
func (g *needs) judge(e *Edge) {
	if e.is(together) {
		return // judged with the unit
	}
	s := e.To.avail
	if s == Satisfied && (!e.passes(e.To) || e.ends(e.To)) {
		s = Missing
	}
	if s == Satisfied {
		s = g.judgeCycle(e, e.To)
	}
	g.setState(e, s)
}

// judgeAny sets the state of an any-of edge after member m changed.
func (g *needs) judgeAny(e *Edge, m *Node) {
	circle := false
	good := func(n *Node) bool {
		if n.avail != Satisfied || n == e.From || !e.passes(n) || e.ends(n) || !e.mayMoveTo(n) {
			return false
		}
		grounded := g.canDependOn(e.From, n) == Satisfied
		circle = circle || !grounded
		return grounded
	}
	switch {
	case m != nil && m != e.To && e.State == Satisfied:
		return // another one provides
	case m != nil && good(m):
		g.provide(e, m)
	case m == nil || m == e.To:
		if e.To != nil && good(e.To) {
			g.provide(e, e.To)
			break
		}
		var best *Node
		g.Below(e.any.prefix, func(n *Node) bool {
			if good(n) && (best == nil || n.Key < best.Key) {
				best = n
			}
			return true
		})
		if best != nil {
			g.provide(e, best)
			break
		}
		fallthrough
	default:
		if circle {
			g.setClosesCycle(e, true)
		}
		g.pickProvider(e)
		switch {
		case e.pinned() && e.To.avail == Missing: // and the world cannot move to what is not there yet
			g.setState(e, Missing)
		case e.any.unsure > 0 || g.prefixBlind(e.any.prefix):
			g.setState(e, Unsure)
		default:
			g.setState(e, Missing)
		}
	}
}

// pickProvider finds something for a world to depend on that needs any key below a prefix,
// and that was found and not made, or lost what it depended on: it depends on one of what is
// there, be the need met or not, at best on one that would meet it. It cannot depend
// on what depends on it in turn: that goes first.
func (g *needs) pickProvider(e *Edge) {
	if e.any == nil || e.role&ofActual == 0 || !e.From.MayExist || e.To != nil && e.To.Presence != Absent {
		return
	}
	var best *Node
	passes, circle := false, false
	g.Below(e.any.prefix, func(n *Node) bool {
		if n.Presence != Present || n == e.From {
			return true
		}
		p := e.passes(n)
		switch {
		case best != nil && (passes && !p || p == passes && n.Key > best.Key): // no better
		case n.DependsOn(e.From):
			circle = true
		default:
			best, passes = n, p
		}
		return true
	})
	switch {
	case best != nil:
		g.moveTo(e, best)
	case circle:
		g.setClosesCycle(e, true) // looked at again when the cycle may have opened
	}
}

// moveTo makes m the node that an any-of edge depends on.
func (g *needs) moveTo(e *Edge, m *Node) {
	g.saveEdge(e)
	if e.is(counted) {
		e.set(counted, false)
		g.addDependents(e.To, -1)
	}
	e.To = m
	g.updateCounted(e)
	if e.fn != nil && e.fn.need.Project != nil {
		g.Wake(e.From) // it may have been built with something else
	}
}

// prefixBlind reports whether the world below a prefix cannot be told.
func (g *needs) prefixBlind(p Key) bool {
	k := g.kindOf(p)
	return k != nil && (k.Blind != 0 || k.Reads && !k.Read)
}

// provide notes that m meets an any-of edge.
func (g *needs) provide(e *Edge, m *Node) {
	if e.To != m {
		g.moveTo(e, m)
	}
	g.setState(e, Satisfied)
}

// setState notes how a need is met, and has the unit of its owner judged again.
func (g *needs) setState(e *Edge, s Readiness) {
	if g.changeState(e, s) {
		g.judgeUnit(e.From)
	}
}

// changeState is setState without the echo to the unit. It reports whether the change
// counts for what is desired.
func (g *needs) changeState(e *Edge, s Readiness) bool {
	if e.State == s {
		return false
	}
	g.saveEdge(e)
	if e.role&ofDesired == 0 {
		e.State = s
		return false
	}
	n := e.From
	g.Save(n)
	n.count(e.State, -1)
	e.State = s
	n.count(e.State, +1)
	g.Wake(n) // also when the sum stays: what is missing is shown
	return true
}

func (n *Node) count(s Readiness, by int32) {
	switch s {
	case Missing:
		n.missing += by
	case Unsure:
		n.unsure += by
	}
}
