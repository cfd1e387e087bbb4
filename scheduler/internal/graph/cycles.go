package graph

import (
	"cmp"
	"slices"
)

// Nothing may hold itself up: of values that need each other in a cycle none
// is ever created. But values that are in place can be given new needs that
// close a cycle, a read can find one, and a need for any key below a prefix
// can move to a key that depends on the needy one.
//
// So two kinds of edges are kept free of cycles, together: those that are counted (an
// actual value depends on another) and those that are satisfied (a value in place will
// depend on it). Levels make that cheap: the owner of such an edge always lies
// above its target, so an edge that points down closes no cycle, and only one
// that points up is followed to find out. An edge that would close one is not
// satisfied, or is not counted, until something changes.

// canDependOn says whether n, with all that depends on it, can depend on p: Satisfied if it
// can, Missing if what p needs leads back to n, Unsure if that will change by itself
// because only p's actual value, not the desired one, leads there.
func (g *needs) canDependOn(n, p *Node) Readiness {
	grounded := n.MayExist || n == g.creating
	switch {
	case g.together > 0 && n.unitMayHaveDependents() && !inUnit(n, p) && leads(p, n):
		return Missing
	case !grounded && n.Dependents == 0, p.level < n.level:
		return Satisfied
	case grounded && n.unreferenced():
		g.setLevel(n, p.level+1)
		return Satisfied
	case path(p, n, (*Edge).willOrder) != nil:
		return Missing
	case path(p, n, (*Edge).orders) != nil:
		return Unsure
	}
	if grounded {
		g.raise(n, p.level+1)
	}
	return Satisfied
}

// unitMayHaveDependents reports whether something may depend on n, or on what needs it together with
// itself. Who comes later is judged then.
func (n *Node) unitMayHaveDependents() bool {
	if n.unitEdges == 0 {
		return n.mayHaveDependents()
	}
	return slices.ContainsFunc(closure(n, (*Node).Peers), (*Node).mayHaveDependents)
}

// mayHaveDependents reports whether something may depend on n.
func (n *Node) mayHaveDependents() bool {
	if n.unreferenced() {
		return false
	}
	needed := len(n.In) > 0
	n.watchesOf(func(p *Prefix) { needed = needed || len(p.in) > 0 })
	return needed
}

// leads reports whether there is no p without n, because of what is desired: of p, of
// what it depends on, and of what that needs together with itself. Units are not
// ordered by level, so all that lies below p is looked at. What is not ours is there
// without its peer.
func leads(p, n *Node) bool {
	return slices.Contains(closure(p, func(m *Node, f func(*Node)) {
		for _, e := range m.Out {
			switch {
			case e.role&ofDesired == 0 || e.To == nil:
			case e.is(together) && !m.Foreign,
				!e.is(together) && (e.is(counted) || e.State == Satisfied):
				f(e.To)
			}
		}
	}), n)
}

// unreferenced: no edge that orders ends at n. Who comes later is judged then.
func (n *Node) unreferenced() bool { return n.avail != Satisfied && n.Dependents == 0 }

// ordersByDesired reports whether the edge orders nodes because of what is desired. One that
// is counted already does even while its target is on the way out; else those of a cycle
// would take turns in leaving.
func (e *Edge) ordersByDesired() bool {
	return e.role&ofDesired != 0 && !e.is(together) && (e.is(counted) || e.State == Satisfied && e.From.MayExist)
}

// willOrder reports whether the edge orders nodes because of what is desired, or is the need
// of what has gone while others depend on it still: it is to be made again beneath them.
// Those are not ordered by level.
func (e *Edge) willOrder() bool {
	return e.ordersByDesired() || e.role&ofDesired != 0 && !e.is(together) && e.State == Satisfied && e.From.Dependents > 0
}

// orders reports whether the edge's owner lies above its target.
func (e *Edge) orders() bool { return e.is(counted) || e.ordersByDesired() }

func (e *Edge) isCounted() bool { return e.is(counted) }

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

// DependsOn reports whether n's actual value depends on t, directly or through others.
func (n *Node) DependsOn(t *Node) bool { return path(n, t, (*Edge).isCounted) != nil }

// updateCounted counts the edge if its owner's actual value depends on its target, and
// does not otherwise. It never closes a cycle: where values found by a read do, or what
// is not known might, the edge that came last does not count.
func (g *needs) updateCounted(e *Edge) {
	g.pickProvider(e)
	n := e.From
	switch should := e.role&ofActual != 0 && n.MayExist && !e.is(together) && e.To != nil; {
	case should == e.is(counted):
	case !should:
		g.saveEdge(e)
		e.set(counted, false)
		g.addDependents(e.To, -1)
		g.judgeDeferred(e)
	case !g.makeRoom(e):
		g.cutFromCycle(e)
	default:
		g.saveEdge(e)
		e.set(counted, true)
		e.set(cut, false)
		g.addDependents(e.To, +1)
		g.judgeDeferred(e)
	}
}

// makeRoom makes room for an edge to be counted. It fails only if what is counted already
// leads back and none of it can yield.
func (g *needs) makeRoom(e *Edge) bool {
	n, p := e.From, e.To
	if p == n {
		return false
	}
	for p.level >= n.level {
		if n.unreferenced() {
			g.setLevel(n, p.level+1)
			return true
		}
		way := path(p, n, (*Edge).orders)
		if way == nil {
			g.raise(n, p.level+1)
			return true
		}
		weakest := slices.MinFunc(way, func(a, b *Edge) int { return cmp.Compare(a.strength(), b.strength()) })
		if weakest.strength() >= e.strength() {
			return false
		}
		g.cutFromCycle(weakest)
	}
	return true
}

// strength orders edges that are counted, or about to be, by which yields where they
// would close a cycle: those that are only desired, then needs that something else may
// satisfy, then what is only feared of an actual value that is not known.
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

// cutFromCycle takes an edge out of a cycle, until something changes.
func (g *needs) cutFromCycle(e *Edge) {
	g.saveEdge(e)
	e.set(cut, true)
	g.listCycle(e)
	if e.is(counted) {
		e.set(counted, false)
		g.addDependents(e.To, -1)
	}
	if e.ordersByDesired() {
		g.setState(e, Unsure)
	}
}

// recheck judges a satisfied need once more, when its owner comes into being or
// the together needs around it may have changed.
func (g *needs) recheck(e *Edge) {
	if e.State != Satisfied || e.is(together) || e.To == nil || g.canDependOn(e.From, e.To) == Satisfied {
		return
	}
	if e.any != nil {
		g.judgeAny(e, nil)
	} else {
		g.judge(e)
	}
}

func (g *needs) setLevel(n *Node, level int32) {
	g.Save(n)
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
			if d := e.From; e.To == m && d.level <= m.level && e.orders() {
				g.setLevel(d, m.level+1)
				todo = append(todo, d)
			}
		}
		for _, e := range m.In {
			above(e)
		}
		if m.unreferenced() {
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
	if n.Dependents > 0 {
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

// judgeCycle judges a need that is otherwise met by p.
func (g *needs) judgeCycle(e *Edge, p *Node) Readiness {
	s := g.canDependOn(e.From, p)
	g.setClosesCycle(e, s != Satisfied)
	return s
}

// setClosesCycle notes whether the need is unmet only because it closes a cycle.
func (g *needs) setClosesCycle(e *Edge, yes bool) {
	if e.is(closesCycle) != yes {
		g.saveEdge(e)
		e.set(closesCycle, yes)
	}
	if yes {
		g.listCycle(e)
	}
}

func (g *needs) listCycle(e *Edge) {
	if !e.is(listed) {
		g.saveEdge(e)
		e.set(listed, true)
		g.cycles = append(g.cycles, e)
	}
}

// rejudgeCycles looks again at edges that closed a cycle when something that
// may have been part of one has changed.
func (g *needs) rejudgeCycles() {
	if len(g.cycles) == 0 {
		return
	}
	edges := g.cycles
	g.cycles = nil
	for _, e := range edges {
		g.saveEdge(e)
		again := e.is(closesCycle | cut)
		e.set(listed|closesCycle|cut, false)
		switch {
		case e.role == 0 || !again:
			continue
		case e.any != nil:
			g.judgeAny(e, nil)
		default:
			g.judge(e)
		}
		g.updateCounted(e)
	}
}
