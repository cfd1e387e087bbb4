package graph

import "strings"

// A unit is a set of nodes whose desired values need each other together (veth
// peers). It is satisfied as one: when every member is asked for, agrees with
// the others, and has all else that it needs.

// judgeUnit judges the together needs around n after n changed.
func (g *Graph) judgeUnit(n *Node) {
	if n.ties == 0 {
		return
	}
	members := component(n)
	type verdict struct {
		e *Edge
		s Sat
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
		g.setTogether(v.e, v.s)
	}
}

// Peers calls f with the nodes that need n together with themselves.
func (n *Node) Peers(f func(*Node)) {
	if n.ties == 0 {
		return
	}
	for _, e := range n.In {
		if e.is(together) && e.role&ofDesired != 0 {
			f(e.From)
		}
	}
}

// setTogether is setState without the echo to the unit.
func (g *Graph) setTogether(e *Edge, s Sat) {
	if e.State == s {
		return
	}
	g.touchEdge(e)
	n := e.From
	if e.role&ofDesired == 0 {
		e.State = s
		return
	}
	g.Touch(n)
	n.count(e.State, -1)
	e.State = s
	n.count(e.State, +1)
	g.Wake(n)
}

// component is all nodes tied to n by together needs, in either direction.
func component(n *Node) []*Node {
	members := []*Node{n}
	seen := map[*Node]bool{n: true}
	add := func(m *Node) {
		if !seen[m] {
			seen[m] = true
			members = append(members, m)
		}
	}
	for i := 0; i < len(members); i++ {
		for _, e := range members[i].Out {
			if e.is(together) && e.role&ofDesired != 0 {
				add(e.To)
			}
		}
		for _, e := range members[i].In {
			if e.is(together) && e.role&ofDesired != 0 {
				add(e.From)
			}
		}
	}
	return members
}

// feasible tells how the together need e is met: by everything else that the
// values needed together need.
func feasible(e *Edge) Sat {
	if e.role&ofDesired != 0 && e.To.Goal() != nil && e.Agree(e.To.Desired) != nil {
		return Missing
	}
	closure := []*Node{e.To}
	in := map[*Node]bool{e.To: true}
	for i := 0; i < len(closure); i++ {
		for _, o := range closure[i].Out {
			if o.is(together) && o.role&ofDesired != 0 && !in[o.To] {
				in[o.To] = true
				closure = append(closure, o.To)
			}
		}
	}
	sum := Satisfied
	for _, m := range closure {
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

// within tells whether an ordinary need is for another member of the unit, and
// whether what is desired there is what is needed.
func (e *Edge) within(unit map[*Node]bool) (inner, fits bool) {
	pass := func(t *Node) bool {
		return e.fn == nil || e.fn.pass(t, t.Desired)
	}
	if e.any == nil {
		return unit[e.To], unit[e.To] && pass(e.To)
	}
	for t := range unit {
		if t != e.From && strings.HasPrefix(string(t.Key), string(e.any.prefix)) && pass(t) {
			return true, true
		}
	}
	return false, false
}

// Goal is the value that should be in the world after conflicts are decided:
// the desired one, or nil if another value has what it claims.
func (n *Node) Goal() any {
	if n.X != nil && n.X.Lost != nil {
		return nil
	}
	return n.Desired
}
