package graph

// Nothing may hold itself up: of values that need each other in a circle none
// is ever created. But values that are in place can be given new needs that
// close a circle. Levels make that cheap to see: whatever is in place lies
// above all that it needs, so a need that points down closes no circle, and
// only one that points up is followed to find out.

// founded tells whether n, with all that stands on it, can stand on p:
// Missing if what p needs leads back to n, Unsure if that will change by itself
// because only p's value in the world, not the desired one, leads there.
func (g *Graph) founded(n, p *Node) Sat {
	switch {
	case !n.Grounded:
		return Satisfied // its level is set when it is created
	case p.level < n.level:
		return Satisfied
	case n.avail != Satisfied && n.Standing == 0:
		// Nobody stands on n now; who does later is judged then.
		g.Touch(n)
		n.level = p.level + 1
		return Satisfied
	case leads(p, n, ofDesired, anyNode):
		return Missing
	case leads(p, n, ofDesired|ofActual, anyNode):
		return Unsure
	}
	g.raise(n, p.level+1)
	return Satisfied
}

func anyNode(*Node) bool { return true }

// calm: what it stands on is known, not only a cautious guess.
func calm(n *Node) bool { return n.Presence == Present && !n.Moving }

// leads tells whether a path of needs of these roles, through nodes that pass,
// goes from p to n.
func leads(p, n *Node, roles role, pass func(*Node) bool) bool {
	if !pass(p) {
		return false
	}
	if p == n {
		return true
	}
	seen := map[*Node]bool{p: true}
	todo := []*Node{p}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range m.Out {
			t := e.To
			if t == nil || e.Together || e.role&roles == 0 || e.role&ofActual == 0 && e.State != Satisfied || seen[t] || !pass(t) {
				continue
			}
			if t == n {
				return true
			}
			if roles == ofDesired && t.level < n.level {
				continue // below n nothing needs n
			}
			seen[t] = true
			todo = append(todo, t)
		}
	}
	return false
}

// StandsOn tells whether n's world stands on t, directly or through others.
func (n *Node) StandsOn(t *Node) bool { return leads(n, t, ofActual, anyNode) }

// Knotted tells that n's world stands on something that itself stands on n.
// Only a world that others have changed can be like that; neither can go first.
func (n *Node) Knotted() bool {
	for _, e := range n.Out {
		if e.stands() && e.To.level >= n.level && leads(e.To, n, ofActual, calm) {
			return true
		}
	}
	return false
}

// raise lifts n, and what stands on it, to a level.
func (g *Graph) raise(n *Node, level int32) {
	todo := []*Node{n}
	g.Touch(n)
	n.level = level
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range m.In {
			d := e.From
			if e.State == Satisfied && e.role&ofDesired != 0 && !e.Together && d.Grounded && d.level <= m.level {
				g.Touch(d)
				d.level = m.level + 1
				todo = append(todo, d)
			}
		}
	}
}

// settleLevel puts a node that is being created above all that it needs.
func (g *Graph) settleLevel(n *Node) {
	level := int32(0)
	for _, e := range n.Out {
		if e.To != nil && !e.Together && e.State == Satisfied && e.To.level >= level {
			level = e.To.level + 1
		}
	}
	g.Touch(n)
	n.level = level
}

// ground judges a need that is otherwise met by p.
func (g *Graph) ground(e *Edge, p *Node) Sat {
	s := g.founded(e.From, p)
	if circular := s != Satisfied; circular != e.circular {
		g.touchEdge(e)
		e.circular = circular
	}
	if s != Satisfied {
		g.circular = append(g.circular, e)
	}
	return s
}

// rejudgeCircles looks again at needs that closed a circle when something that
// may have been part of one has changed.
func (g *Graph) rejudgeCircles() {
	if len(g.circular) == 0 {
		return
	}
	edges := g.circular
	g.circular = nil
	for _, e := range edges {
		if !e.circular || e.role == 0 {
			continue
		}
		g.touchEdge(e)
		e.circular = false
		if e.any != nil {
			g.judgeAny(e, nil)
		} else {
			g.judge(e)
		}
	}
}
