package graph

import "slices"

// needs says how needs are met, and keeps what depends on what free of cycles.
type needs struct {
	store
	// cycles are edges that do not count because they would close a cycle.
	cycles []*Edge
	// creating is about to be in place: what it needs is judged as if it were, but
	// its own needs do not order it yet. Else one of them that closes a cycle
	// would have it lifted above itself, without end, while another is judged.
	creating *Node
	together int // how many together needs there are
	changes  map[*Node]change
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

func mayExist(n *Node) bool {
	return n.Kind != nil && !n.Kind.Observed && n.Presence != Absent
}

func (g *needs) updateMayExist(n *Node) { g.setMayExist(n, mayExist(n)) }

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

func (g *needs) addDependents(t *Node, by int32) {
	g.Save(t)
	t.Dependents += by
	if t.Dependents == 0 || by < 0 && g.Changing(t) {
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
	if s == Satisfied && (!e.passes(e.To) || g.ends(e, e.To)) {
		s = Missing
	}
	if s == Satisfied {
		s = g.judgeCycle(e, e.To)
	}
	g.setState(e, s)
}

// judgeAny sets the state of an any-of edge after member m changed; nil: any may have.
func (g *needs) judgeAny(e *Edge, m *Node) {
	if m != nil && m != e.To && e.State == Satisfied {
		return // another one provides
	}
	best, circle := g.bestProvider(e, m)
	if best != nil {
		g.provide(e, best)
		return
	}
	if circle {
		g.setClosesCycle(e, true)
	}
	g.pickProvider(e)
	if e.To != nil && g.changes[e.To].deferred { // it may depend on it by now
		if yes, _ := g.canProvide(e, e.To); yes {
			g.provide(e, e.To)
			return
		}
	}
	switch {
	case e.pinned() && e.To.avail == Missing: // and it cannot move to what is not there yet
		g.setState(e, Missing)
	case e.any.unsure > 0 || g.isBlind(e.any):
		g.setState(e, Unsure)
	default:
		g.setState(e, Missing)
	}
}

// bestProvider finds what meets an any-of edge after member m changed: m, or, if it was m
// that met it, the first by its key. If any may have changed, what met it so far comes first.
// With nil, circle tells that something would but for a cycle.
func (g *needs) bestProvider(e *Edge, m *Node) (best *Node, circle bool) {
	first := m
	if m == nil {
		first = e.To
	}
	if first != nil {
		yes, closes := g.canProvide(e, first)
		if yes {
			return first, false
		}
		circle = closes
	}
	if m != nil && m != e.To {
		return nil, circle
	}
	g.members(e.any, func(n *Node) bool {
		yes, closes := g.canProvide(e, n)
		circle = circle || closes
		if yes && (best == nil || n.Key < best.Key) {
			best = n
		}
		return true
	})
	return best, circle
}

// canProvide reports whether n meets an any-of edge, or would, but closes a cycle.
func (g *needs) canProvide(e *Edge, n *Node) (yes, closes bool) {
	if n.avail != Satisfied || n == e.From || !e.passes(n) || g.ends(e, n) || !e.mayMoveTo(n) {
		return false, false
	}
	yes = g.canDependOn(e.From, n) == Satisfied
	return yes, !yes
}

// pickProvider finds something for an actual value to depend on that needs any key below
// a prefix, and that was found and not made, or lost what it depended on: it depends on one of what is
// there, be the need met or not, at best on one that would meet it. It cannot depend
// on what depends on it in turn: that goes first. If what it depends on does not pass any more, it
// depends on one that does: that may be what it was made with, or what it needs until the other
// is repaired.
func (g *needs) pickProvider(e *Edge) {
	if e.any == nil || e.role&ofActual == 0 || !e.From.MayExist {
		return
	}
	stands := e.To != nil && e.To.Presence != Absent
	if stands && (e.passes(e.To) || e.pinned()) {
		return
	}
	var best *Node
	passes, circle := false, false
	g.members(e.any, func(n *Node) bool {
		if n.Presence != Present || n == e.From {
			return true
		}
		p := e.passes(n)
		switch {
		case stands && !p, best != nil && (passes && !p || p == passes && n.Key > best.Key): // no better
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
	case circle && !stands:
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

// isBlind reports whether what is there of an any-of set cannot be told.
func (g *needs) isBlind(p *Prefix) bool {
	blind := func(key Key) bool {
		k := g.kindOf(key)
		return k != nil && (k.Blind != 0 || k.Reads && !k.Read)
	}
	return blind(p.prefix) || slices.ContainsFunc(p.also, func(d *Dir) bool { return blind(Key(d.path)) })
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
