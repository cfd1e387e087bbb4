package graph

// SetDesired sets the value that should be in the world; nil for none.
func (g *Graph) SetDesired(n *Node, v any) {
	g.Touch(n)
	n.Desired = v
	g.setNeeds(n, v, ofDesired)
	g.setWantClaims(n, v)
	if n.Presence == Unknown && n.Actual == nil && n.Grounded {
		g.adoptNeeds(n) // it may stand on anything that it would need
	}
	g.judgeUnit(n)
	g.rejudgeCircles()
	g.Wake(n)
}

// SetBase makes n a value derived from base, nil to cut the bond.
func (g *Graph) SetBase(n, base *Node) {
	g.Touch(n)
	n.Base = base
}

// Built records that the world of n was made with, or read beside, the needed
// things as they are now.
func (g *Graph) Built(n *Node) {
	for _, e := range n.Out {
		if e.fn == nil || e.fn.need.Project == nil || e.role&ofActual == 0 {
			continue
		}
		if e.To == nil || e.To.Presence != Present {
			continue // what it was made with before still counts
		}
		if e.leansOn(e.To) {
			continue
		}
		g.touchEdge(e)
		e.fn.projKnown, e.fn.projected = true, e.fn.project(e.To)
	}
}

// BuiltElsewhere tells that the world of n was built with a part of one of many that
// would do, and that it stands on another one now, of which that part is not the same.
func (g *Graph) BuiltElsewhere(n *Node) bool {
	for _, e := range n.Out {
		if e.any != nil && e.role&ofActual != 0 && e.builtWithPart() && e.To.Presence == Present && e.fn.project(e.To) != e.fn.projected {
			return true
		}
	}
	return false
}

// leansOn tells that a world that was found stands on t only because what it was
// built with is not there yet: of t it has no part.
func (e *Edge) leansOn(t *Node) bool { return e.any != nil && !e.passes(t) }

// builtWithPart tells that the world was built with a part that is known, of the
// target if it has not moved.
func (e *Edge) builtWithPart() bool {
	return e.To != nil && e.fn != nil && e.fn.need.Project != nil && e.fn.projKnown
}

// Stale is a node that was built with a part of another that is no longer so;
// not Sure if that part was not known when the node was found.
type Stale struct {
	Node *Node
	Sure bool
}

// stale finds the nodes that were built with a part of t that has changed, or
// that may have been, because the part was not known.
func (g *Graph) stale(t *Node, seen bool) (out []Stale) {
	if t.Presence != Present {
		return nil
	}
	check := func(e *Edge) {
		if e.To != t || e.fn == nil || e.fn.need.Project == nil || e.role&ofActual == 0 || e.From.Presence == Absent || e.leansOn(t) {
			return
		}
		p := e.fn.project(t)
		if e.fn.projKnown && e.fn.projected == p {
			return
		}
		if !e.fn.projKnown && !seen {
			return
		}
		out = append(out, Stale{Node: e.From, Sure: e.fn.projKnown})
		g.touchEdge(e)
		e.fn.projKnown, e.fn.projected = true, p
	}
	for _, e := range t.In {
		check(e)
	}
	t.watchesOf(func(p *Prefix) {
		for _, e := range p.in {
			check(e)
		}
	})
	return out
}

// SetActualNeeds makes the needs of the actual value those of v, a value read
// from the world that is not the desired one.
func (g *Graph) SetActualNeeds(n *Node, v any) { g.setActualNeeds(n, v, false) }

// AdoptNeeds makes the needs of the actual value those of the desired one.
func (g *Graph) AdoptNeeds(n *Node) { g.setActualNeeds(n, nil, true) }

func (g *Graph) setActualNeeds(n *Node, v any, asDesired bool) {
	if asDesired {
		g.inheritBuilt(n)
		g.dropRole(n, func(e *Edge) bool { return e.role == ofActual }, ofActual)
		g.adoptNeeds(n)
		g.setHoldClaims(n, n.wantClaims(), false)
		return
	}
	g.setNeeds(n, v, ofActual)
	g.setHoldClaims(n, g.claimsOf(n, v), false)
}

// adoptNeeds lets the world of n stand on the needs of the desired value also.
func (g *Graph) adoptNeeds(n *Node) {
	for _, e := range n.Out {
		if e.role&ofDesired != 0 {
			g.addRole(e, ofActual)
		}
	}
	g.setHoldClaims(n, n.wantClaims(), true)
}

// setNeeds makes the edges of one role those that v needs.
func (g *Graph) setNeeds(n *Node, v any, r role) {
	var needs []Need
	if v != nil && n.Kind != nil {
		if n.Kind.Needs != nil {
			needs = n.Kind.Needs(n.Key, v)
		}
		if n.Base != nil {
			needs = append(needs[:len(needs):len(needs)], Need{Key: n.Base.Key, Why: "it is part of it"})
		}
	}
	if len(needs) == 0 && len(n.Out) == 0 {
		return
	}
	g.Touch(n)
	old := n.Out
	var out []*Edge
	var first *Edge
	if len(needs) == 1 && len(old) == 0 { // most have one need: one allocation
		one := &struct {
			edge Edge
			out  [1]*Edge
		}{}
		first, out = &one.edge, one.out[:0]
	} else {
		out = make([]*Edge, 0, len(needs)+len(old))
	}
	for _, need := range needs {
		e := match(old, need)
		if e == nil {
			if e = first; e == nil {
				e = &Edge{}
			}
			*e = Edge{From: n, Why: need.Why, Together: need.Together, State: Missing, inIdx: -1,
				OfBase: n.Base != nil && need.Key == n.Base.Key}
			if need.Pass != nil || need.Project != nil || need.Agree != nil || need.Tell != nil {
				e.fn = &needFuncs{need: need}
			}
			e.remember(old, need)
		}
		e.kept = true
		out = append(out, e)
		if e.inIdx < 0 {
			g.attach(e, need)
		}
		g.addRole(e, r)
	}
	for _, e := range old {
		if e.kept {
			continue
		}
		g.removeRole(e, r)
		if e.role == 0 {
			g.detach(e)
			continue
		}
		out = append(out, e)
	}
	for _, e := range out {
		e.kept = false
	}
	n.Out = out
}

// remember takes over what the world was built with, and on which of many it
// stands, from the edge that said the same before.
func (e *Edge) remember(edges []*Edge, need Need) {
	for _, was := range edges {
		if was.role&ofActual == 0 || was.Why != need.Why || was.Prefix() != need.Prefix {
			continue
		}
		if need.Prefix != "" {
			e.To = was.To
		} else if was.To.Key != need.Key {
			continue
		}
		if need.Project == nil {
			return
		}
		if was.fn != nil && was.fn.projKnown { // the same may be needed twice, and built with once
			e.fn.projKnown, e.fn.projected = true, was.fn.projected
			return
		}
	}
}

// inheritBuilt lets the needs of the desired value know with what the world was
// built by the same needs of the value before.
func (g *Graph) inheritBuilt(n *Node) {
	for _, e := range n.Out {
		if e.fn == nil || e.fn.need.Project == nil || e.fn.projKnown || e.role&ofDesired == 0 {
			continue
		}
		for _, was := range n.Out {
			if was.fn != nil && was.fn.projKnown && was.role&ofActual != 0 && was.To == e.To && was.Why == e.Why && was.any == e.any {
				g.touchEdge(e)
				e.fn.projKnown, e.fn.projected = true, was.fn.projected
				break
			}
		}
	}
}

// match finds an edge that says the same as the need. Functions cannot be
// compared, so needs with functions always get a new edge.
func match(edges []*Edge, need Need) *Edge {
	if need.Pass != nil || need.Project != nil || need.Agree != nil || need.Tell != nil {
		return nil
	}
	for _, e := range edges {
		if e.kept || e.fn != nil || e.Together != need.Together || e.Why != need.Why || e.Prefix() != need.Prefix {
			continue
		}
		if e.any != nil || e.To.Key == need.Key {
			return e
		}
	}
	return nil
}

// dropRole takes a role from the edges that match.
func (g *Graph) dropRole(n *Node, which func(*Edge) bool, r role) {
	some := false
	for _, e := range n.Out {
		some = some || which(e)
	}
	if !some {
		return
	}
	g.Touch(n)
	out := make([]*Edge, 0, len(n.Out))
	for _, e := range n.Out {
		if which(e) {
			g.removeRole(e, r)
		}
		if e.role == 0 {
			g.detach(e)
			continue
		}
		out = append(out, e)
	}
	n.Out = out
}

func (g *Graph) attach(e *Edge, need Need) {
	if need.Prefix != "" {
		p := g.watch(need.Prefix)
		g.touchPrefix(p)
		e.any, e.inIdx = p, int32(len(p.in))
		p.in = append(p.in, e)
		g.judgeAny(e, nil)
		return
	}
	t := g.Node(need.Key)
	g.Touch(t)
	e.To, e.inIdx = t, int32(len(t.In))
	t.In = append(t.In, e)
	if len(t.In) == 1 {
		g.Wake(t) // somebody takes an interest
	}
	if e.Together {
		g.tie(e, +1)
		return // judged with the unit, once all edges are there
	}
	g.judge(e)
}

// detach removes an edge without roles from what it points to.
func (g *Graph) detach(e *Edge) {
	g.unuse(e)
	g.removeRole(e, ofDesired|ofActual)
	if e.any != nil {
		g.touchPrefix(e.any)
		e.any.in = g.cut(e.any.in, e)
		g.unwatch(e.any)
		return
	}
	g.Touch(e.To)
	e.To.In = g.cut(e.To.In, e)
	if e.Together {
		g.tie(e, -1)
		g.judgeUnit(e.To)
	}
	g.Wake(e.To)
}

func (g *Graph) tie(e *Edge, by int32) {
	g.Touch(e.From)
	g.Touch(e.To)
	e.From.ties += by
	e.To.ties += by
}

// cut removes e from a list where it knows its place.
func (g *Graph) cut(list []*Edge, e *Edge) []*Edge {
	i, last := e.inIdx, len(list)-1
	moved := list[last]
	g.touchEdge(moved)
	g.touchEdge(e)
	if g.trying {
		g.undo(func() { list[i], list[last] = e, moved })
	}
	list[i], moved.inIdx = moved, i
	if !g.trying {
		list[last] = nil
	}
	e.inIdx = -1
	return list[:last]
}

func (g *Graph) addRole(e *Edge, r role) {
	gained := r &^ e.role
	if gained == 0 {
		return
	}
	g.touchEdge(e)
	e.role |= gained
	if gained&ofDesired != 0 {
		g.Touch(e.From)
		e.From.count(e.State, +1)
	}
	g.bear(e)
}

func (g *Graph) removeRole(e *Edge, r role) {
	lost := r & e.role
	if lost == 0 {
		return
	}
	g.touchEdge(e)
	if lost&ofDesired != 0 {
		g.Touch(e.From)
		e.From.count(e.State, -1)
	}
	if lost&ofActual != 0 && e.fn != nil {
		e.fn.projKnown = false // nothing stands there any more that was made with it
	}
	e.role &^= lost
	g.bear(e)
}

// KindChanged judges anew all keys of a kind, and all needs for any of them,
// after the kind was registered, read, or could not be read.
func (g *Graph) KindChanged(prefix Key) {
	var nodes []*Node
	g.Below(prefix, func(n *Node) bool { nodes = append(nodes, n); return true })
	for _, n := range nodes {
		g.refresh(n, false)
	}
	path, _ := split(string(prefix))
	if d := g.dirs[path]; d != nil {
		d.rejudge(g)
	}
}

func (d *Dir) rejudge(g *Graph) {
	for _, p := range d.watches {
		for _, e := range p.in {
			g.judgeAny(e, nil)
		}
	}
	for _, s := range d.subs {
		s.rejudge(g)
	}
}
