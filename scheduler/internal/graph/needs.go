package graph

import "slices"

// SetDesired sets the desired value; nil for none.
func (g *Graph) SetDesired(n *Node, v any) {
	g.Save(n)
	n.Desired = v
	g.setNeeds(n, v, ofDesired)
	g.setWantClaims(n, v)
	if n.Presence == Unknown && n.Actual == nil && n.MayExist {
		g.inherit(n)
		g.adoptNeeds(n) // it may depend on anything that it would need
	}
	if n.unitEdges > 0 {
		g.recheckUnit(n)
		g.judgeUnit(n)
	}
	g.rejudgeCycles()
	g.Wake(n)
}

// SetBase makes n a value derived from base, nil to cut the bond.
func (g *Graph) SetBase(n, base *Node) {
	g.Save(n)
	n.Base = base
}

// SetActualNeeds makes the needs and the claims of the actual value those of v, a value that was
// read and is not the desired one; nil for none.
func (g *Graph) SetActualNeeds(n *Node, v any) {
	g.setNeeds(n, v, ofActual)
	g.setHoldClaims(n, g.claimsOf(n, v), false)
}

// AdoptNeeds makes the needs and the claims of the actual value those of the desired one.
func (g *Graph) AdoptNeeds(n *Node) {
	g.inherit(n)
	g.dropRole(n, func(e *Edge) bool { return e.role == ofActual }, ofActual)
	g.adoptNeeds(n)
	g.setHoldClaims(n, n.claims().want, false)
}

// adoptNeeds lets the actual value of n depend on the needs of the desired value also.
func (g *Graph) adoptNeeds(n *Node) {
	for _, e := range n.Out {
		if e.role&ofDesired != 0 {
			g.addRole(e, ofActual)
		}
	}
	g.setHoldClaims(n, n.claims().want, true)
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
	g.Save(n)
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
	for i, need := range needs {
		e := match(old, need)
		if e == nil {
			if e = first; e == nil {
				e = &Edge{}
			}
			*e = Edge{From: n, Why: need.Why, State: Missing, inIdx: -1}
			e.set(together, need.Together)
			e.set(ofBase, n.Base != nil && need.Key == n.Base.Key)
			if need.Pass != nil || need.Project != nil || need.Agree != nil || need.Tell != nil {
				e.fn = &needFuncs{need: conditions{need.Pass, need.Tell, need.Project, need.Agree}}
			}
		}
		e.set(kept, true)
		out = append(out, e)
		if e.inIdx < 0 {
			if need.Prefix != "" || e.projects() {
				e.nth = nth(needs[:i], &need)
			}
			g.attach(e, need, old, r)
		}
		g.addRole(e, r)
	}
	for _, e := range old {
		if e.is(kept) {
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
		e.set(kept, false)
	}
	n.Out = out
}

// match finds an edge that says the same as the need. Functions cannot be
// compared, so needs with functions always get a new edge.
func match(edges []*Edge, need Need) *Edge {
	if need.Pass != nil || need.Project != nil || need.Agree != nil || need.Tell != nil {
		return nil
	}
	for _, e := range edges {
		if e.is(kept) || e.fn != nil || e.is(together) != need.Together || e.Why != need.Why || e.Prefix() != need.Prefix || e.any != nil && !e.any.isAlsoIn(need.Also) {
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
	g.Save(n)
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

// nth is how many of the needs are like this one; see Edge.alike.
func nth(needs []Need, like *Need) (n uint8) {
	for i := range needs {
		if o := &needs[i]; o.Why == like.Why && o.Key == like.Key && o.Prefix == like.Prefix && slices.Equal(o.Also, like.Also) && o.Together == like.Together &&
			(o.Project == nil) == (like.Project == nil) && (o.Pass == nil) == (like.Pass == nil) {
			n++
		}
	}
	return n
}

// attach has the edge begin to count. old are the edges of the node so far.
func (g *Graph) attach(e *Edge, need Need, old []*Edge, r role) {
	if need.Prefix != "" {
		p := g.watch(need.Prefix, need.Also)
		g.savePrefix(p)
		e.any, e.inIdx = p, int32(len(p.in))
		p.in = append(p.in, e)
		e.remember(old, r)
		g.judgeAny(e, nil)
		return
	}
	t := g.Node(need.Key)
	g.Save(t)
	e.To, e.inIdx = t, int32(len(t.In))
	t.In = append(t.In, e)
	e.remember(old, r)
	if len(t.In) == 1 {
		g.Wake(t) // somebody takes an interest
	}
	if e.is(together) {
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
		g.savePrefix(e.any)
		e.any.in = g.cut(e.any.in, e)
		g.unwatch(e.any)
		return
	}
	g.Save(e.To)
	e.To.In = g.cut(e.To.In, e)
	if e.is(together) {
		g.tie(e, -1)
		g.judgeUnit(e.To)
	}
	g.Wake(e.To)
}

func (g *Graph) tie(e *Edge, by int32) {
	g.Save(e.From)
	g.Save(e.To)
	e.From.unitEdges += by
	e.To.unitEdges += by
	g.together += int(by)
}

// cut removes e from a list where it knows its place.
func (g *Graph) cut(list []*Edge, e *Edge) []*Edge {
	i, last := e.inIdx, len(list)-1
	moved := list[last]
	g.saveEdge(moved)
	g.saveEdge(e)
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
	g.saveEdge(e)
	e.role |= gained
	if gained&ofDesired != 0 {
		g.Save(e.From)
		e.From.count(e.State, +1)
	}
	g.updateCounted(e)
}

func (g *Graph) removeRole(e *Edge, r role) {
	lost := r & e.role
	if lost == 0 {
		return
	}
	g.saveEdge(e)
	if lost&ofDesired != 0 {
		g.Save(e.From)
		e.From.count(e.State, -1)
	}
	e.role &^= lost
	g.updateCounted(e)
	if lost&ofActual == 0 || e.fn == nil {
		return
	}
	was := e.pinned()
	e.fn.projKnown = false // nothing stands there any more that was made with it
	if was && e.role != 0 && e.State != Satisfied {
		g.judgeAny(e, nil)
	}
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
	for _, p := range slices.Concat(d.watches, d.also) {
		for _, e := range p.in {
			g.judgeAny(e, nil)
		}
	}
	for _, s := range d.subs {
		s.rejudge(g)
	}
}
