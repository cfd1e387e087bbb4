package graph

import (
	"cmp"
	"slices"
)

// Nothing may hold itself up: of values that need each other in a circle none
// is ever created. But values that are in place can be given new needs that
// close a circle, a read can find one, and a need for any key below a prefix
// can move to a key that stands on the needy one.
//
// So two kinds of edges are kept free of circles, together: those that bear (a
// world stands on a world) and those that are satisfied (a value in place will
// stand on it). Levels make that cheap: the owner of such an edge always lies
// above its target, so an edge that points down closes no circle, and only one
// that points up is followed to find out. An edge that would close one is not
// satisfied, or does not bear, until something changes.

// founded reports whether n, with all that stands on it, can stand on p:
// Missing if what p needs leads back to n, Unsure if that will change by itself
// because only p's value in the world, not the desired one, leads there.
func (g *needs) founded(n, p *Node) Sat {
	grounded := n.Grounded || n == g.coming
	switch {
	case g.ties > 0 && n.relied() && !inUnit(n, p) && leads(p, n):
		return Missing
	case !grounded && n.Standing == 0, p.level < n.level:
		return Satisfied
	case grounded && n.untrodden():
		g.setLevel(n, p.level+1)
		return Satisfied
	case path(p, n, (*Edge).isPromise) != nil:
		return Missing
	case path(p, n, (*Edge).isOrdered) != nil:
		return Unsure
	}
	if grounded {
		g.raise(n, p.level+1)
	}
	return Satisfied
}

// relied reports whether something may stand on n, or on what needs it together with
// itself. Who comes later is judged then.
func (n *Node) relied() bool {
	if n.ties == 0 {
		return n.carries()
	}
	return slices.ContainsFunc(closure(n, (*Node).Peers), (*Node).carries)
}

// carries reports whether something may stand on n.
func (n *Node) carries() bool {
	if n.untrodden() {
		return false
	}
	needed := len(n.In) > 0
	n.watchesOf(func(p *Prefix) { needed = needed || len(p.in) > 0 })
	return needed
}

// leads reports whether there is no p without n, because of what is desired: of p, of
// what it stands on, and of what that needs together with itself. Units are not
// ordered by level, so all that lies below p is looked at. What is not ours is there
// without its peer.
func leads(p, n *Node) bool {
	return slices.Contains(closure(p, func(m *Node, f func(*Node)) {
		for _, e := range m.Out {
			switch {
			case e.role&ofDesired == 0 || e.To == nil:
			case e.is(together) && !m.Foreign,
				!e.is(together) && (e.is(bears) || e.State == Satisfied):
				f(e.To)
			}
		}
	}), n)
}

// untrodden: no edge that orders ends at n. Who comes later is judged then.
func (n *Node) untrodden() bool { return n.avail != Satisfied && n.Standing == 0 }

// isWish reports whether the edge orders nodes because of what is desired. A wish
// that bears already counts even while its target is on the way out; else those
// of a circle would take turns in leaving.
func (e *Edge) isWish() bool {
	return e.role&ofDesired != 0 && !e.is(together) && (e.is(bears) || e.State == Satisfied && e.From.Grounded)
}

// isPromise is a wish, or the need of what has gone while others stand on it
// still: it is to be made again beneath them. Promises are not ordered by level.
func (e *Edge) isPromise() bool {
	return e.isWish() || e.role&ofDesired != 0 && !e.is(together) && e.State == Satisfied && e.From.Standing > 0
}

// isOrdered reports whether the edge's owner lies above its target.
func (e *Edge) isOrdered() bool { return e.is(bears) || e.isWish() }

func (e *Edge) stands() bool { return e.is(bears) }

// path finds edges of one sort that lead from p to n. It is nil if there are
// none, and empty if p is n.
func path(p, n *Node, sort func(*Edge) bool) []*Edge {
	if p == n {
		return []*Edge{}
	}
	came := map[*Node]*Edge{p: nil}
	todo := []*Node{p}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range m.Out {
			t := e.To
			if t == nil || !sort(e) || t.level < n.level {
				continue // below n nothing leads to n
			}
			if _, seen := came[t]; seen {
				continue
			}
			came[t] = e
			if t == n {
				return walkBack(came, n)
			}
			todo = append(todo, t)
		}
	}
	return nil
}

func walkBack(came map[*Node]*Edge, n *Node) (edges []*Edge) {
	for e := came[n]; e != nil; e = came[e.From] {
		edges = append(edges, e)
	}
	return edges
}

// StandsOn reports whether n's world stands on t, directly or through others.
func (n *Node) StandsOn(t *Node) bool { return path(n, t, (*Edge).stands) != nil }

// bear makes the edge bear if its owner's world stands on its target, and not
// otherwise. It never closes a circle: where worlds found by a read do, or what
// is not known might, the edge that came last does not count.
func (g *needs) bear(e *Edge) {
	g.lean(e)
	n := e.From
	switch should := e.role&ofActual != 0 && n.Grounded && !e.is(together) && e.To != nil; {
	case should == e.is(bears):
	case !should:
		g.touchEdge(e)
		e.set(bears, false)
		g.stand(e.To, -1)
	case !g.clear(e):
		g.knot(e)
	default:
		g.touchEdge(e)
		e.set(bears, true)
		e.set(knotted, false)
		g.stand(e.To, +1)
	}
}

// clear makes room for an edge to bear. It fails only if what bears already
// leads back and none of it can yield.
func (g *needs) clear(e *Edge) bool {
	n, p := e.From, e.To
	if p == n {
		return false
	}
	for p.level >= n.level {
		if n.untrodden() {
			g.setLevel(n, p.level+1)
			return true
		}
		way := path(p, n, (*Edge).isOrdered)
		if way == nil {
			g.raise(n, p.level+1)
			return true
		}
		weakest := slices.MinFunc(way, func(a, b *Edge) int { return cmp.Compare(a.strength(), b.strength()) })
		if weakest.strength() >= e.strength() {
			return false
		}
		g.knot(weakest)
	}
	return true
}

// strength orders edges that bear, or are about to, by which yields where they
// would close a circle: mere wishes, then needs that something else may
// satisfy, then what is only feared of a world that is not known.
func (e *Edge) strength() int {
	switch {
	case e.role&ofActual == 0:
		return 0
	case e.any != nil:
		return 1
	case e.From.Presence == Unknown:
		return 2
	}
	return 3
}

// knot takes an edge out of a circle, until something changes.
func (g *needs) knot(e *Edge) {
	g.touchEdge(e)
	e.set(knotted, true)
	g.listCircle(e)
	if e.is(bears) {
		e.set(bears, false)
		g.stand(e.To, -1)
	}
	if e.isWish() {
		g.setState(e, Unsure)
	}
}

// recheck judges a satisfied need once more, when its owner comes into the world or
// the ties around it may have changed.
func (g *needs) recheck(e *Edge) {
	if e.State != Satisfied || e.is(together) || e.To == nil || g.founded(e.From, e.To) == Satisfied {
		return
	}
	if e.any != nil {
		g.judgeAny(e, nil)
	} else {
		g.judge(e)
	}
}

func (g *needs) setLevel(n *Node, level int32) {
	g.Touch(n)
	n.level = level
}

// raise lifts n, and what lies above it, to a level.
func (g *needs) raise(n *Node, level int32) {
	g.setLevel(n, level)
	todo := []*Node{n}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		above := func(e *Edge) {
			if d := e.From; e.To == m && d.level <= m.level && e.isOrdered() {
				g.setLevel(d, m.level+1)
				todo = append(todo, d)
			}
		}
		for _, e := range m.In {
			above(e)
		}
		if m.untrodden() {
			continue
		}
		m.watchesOf(func(p *Prefix) {
			for _, e := range p.in {
				above(e)
			}
		})
	}
}

// settleLevel puts a node that is being created right above all that it needs.
func (g *needs) settleLevel(n *Node) {
	if n.Standing > 0 {
		return
	}
	level := int32(0)
	for _, e := range n.Out {
		if e.To != nil && !e.is(together) && e.State == Satisfied && e.To.level >= level {
			level = e.To.level + 1
		}
	}
	g.setLevel(n, level)
}

// ground judges a need that is otherwise met by p.
func (g *needs) ground(e *Edge, p *Node) Sat {
	s := g.founded(e.From, p)
	g.setCircular(e, s != Satisfied)
	return s
}

// setCircular notes whether the need is unmet only because it closes a circle.
func (g *needs) setCircular(e *Edge, yes bool) {
	if e.is(circular) != yes {
		g.touchEdge(e)
		e.set(circular, yes)
	}
	if yes {
		g.listCircle(e)
	}
}

func (g *needs) listCircle(e *Edge) {
	if !e.is(listed) {
		g.touchEdge(e)
		e.set(listed, true)
		g.circles = append(g.circles, e)
	}
}

// rejudgeCircles looks again at edges that closed a circle when something that
// may have been part of one has changed.
func (g *needs) rejudgeCircles() {
	if len(g.circles) == 0 {
		return
	}
	edges := g.circles
	g.circles = nil
	for _, e := range edges {
		g.touchEdge(e)
		again := e.is(circular | knotted)
		e.set(listed|circular|knotted, false)
		switch {
		case e.role == 0 || !again:
			continue
		case e.any != nil:
			g.judgeAny(e, nil)
		default:
			g.judge(e)
		}
		g.bear(e)
	}
}
