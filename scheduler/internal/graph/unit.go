package graph

import (
	"slices"
)

// A unit is a set of nodes whose desired values need each other together (veth
// peers). It is satisfied as one: when every member is asked for, agrees with
// the others, and has all else that it needs.

// judgeUnit judges the together needs around n after n changed.
func (g *needs) judgeUnit(n *Node) {
	if n.unitEdges == 0 {
		return
	}
	members := component(n)
	type verdict struct {
		e *Edge
		s Readiness
	}
	var out []verdict
	for _, m := range members {
		for _, e := range m.Out {
			if e.is(together) {
				out = append(out, verdict{e, feasible(e)})
			}
		}
	}
	for _, v := range out {
		g.changeState(v.e, v.s)
	}
}

// recheckUnit judges once more what n depends on, and what those depend on that it
// needs together with itself, when its together needs may have changed.
func (g *needs) recheckUnit(n *Node) {
	for _, m := range closure(n, (*Node).With) {
		for _, e := range m.Out {
			g.recheck(e)
		}
	}
}

// Peers calls f with the nodes that need n together with themselves.
func (n *Node) Peers(f func(*Node)) {
	if n.unitEdges == 0 {
		return
	}
	for _, e := range n.In {
		if e.is(together) && e.role&ofDesired != 0 {
			f(e.From)
		}
	}
}

// closure is n and all that follows from it, step by step.
func closure(n *Node, follow func(*Node, func(*Node))) []*Node {
	found := []*Node{n}
	seen := map[*Node]bool{n: true}
	for i := 0; i < len(found); i++ {
		follow(found[i], func(m *Node) {
			if !seen[m] {
				seen[m] = true
				found = append(found, m)
			}
		})
	}
	return found
}

// With calls f with the nodes that n needs together with itself.
func (n *Node) With(f func(*Node)) {
	if n.unitEdges == 0 {
		return
	}
	for _, e := range n.Out {
		if e.is(together) && e.role&ofDesired != 0 {
			f(e.To)
		}
	}
}

// component is all nodes tied to n by together needs, in either direction.
func component(n *Node) []*Node {
	return closure(n, func(m *Node, f func(*Node)) { m.With(f); m.Peers(f) })
}

// inUnit reports whether both nodes need each other together.
func inUnit(n, m *Node) bool {
	return n.unitEdges > 0 && m.unitEdges > 0 && slices.Contains(closure(n, (*Node).With), m) && slices.Contains(closure(m, (*Node).With), n)
}

// InUnit reports whether the need, of whatever sort, is for one that needs the edge's owner
// together with itself, and the other way round.
func (e *Edge) InUnit() bool { return e.To != nil && inUnit(e.From, e.To) }

// feasible tells how the together need e is met: by everything else that the
// values needed together need.
func feasible(e *Edge) Readiness {
	if e.role&ofDesired != 0 && e.To.Goal() != nil && e.Agree(e.To.Desired) != nil {
		return Missing
	}
	all := closure(e.To, (*Node).With)
	in := make(map[*Node]bool, len(all))
	for _, m := range all {
		in[m] = true
	}
	sum := Satisfied
	for _, m := range all {
		if m.Goal() == nil {
			return Missing
		}
		for _, o := range m.Out {
			if o.role&ofDesired == 0 || o.State == Satisfied {
				continue
			}
			if o.is(together) {
				if in[o.To] && o.To.Goal() != nil && o.Agree(o.To.Desired) != nil {
					return Missing
				}
				continue
			}
			if inner, fits := o.within(in); inner {
				if !fits {
					return Missing
				}
				continue // the order inside of the unit, not its feasibility
			}
			if o.State == Missing {
				return Missing
			}
			sum = Unsure
		}
	}
	return sum
}

// within reports whether an ordinary need is for another member of the unit, and
// whether what is desired there is what is needed.
func (e *Edge) within(unit map[*Node]bool) (inner, fits bool) {
	if e.any == nil {
		return unit[e.To], unit[e.To] && e.WouldPass(e.To)
	}
	for t := range unit {
		if t != e.From && e.any.has(t) && e.WouldPass(t) {
			return true, true
		}
	}
	return false, false
}
