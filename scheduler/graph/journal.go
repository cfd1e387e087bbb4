package graph

import "slices"

// Try runs f and takes back every change that it made to the graph.
func (g *Graph) Try(f func()) {
	g.trying, g.saved = true, map[any]struct{}{}
	dirty, head, circles := g.dirty, g.head, g.circles
	g.dirty, g.head, g.circles = nil, 0, slices.Clone(circles)
	defer func() {
		for _, n := range g.dirty[g.head:] {
			n.queued = false
		}
		for i := len(g.log) - 1; i >= 0; i-- {
			g.log[i]()
		}
		g.trying, g.log, g.dirty, g.head, g.circles = false, nil, dirty, head, circles
	}()
	f()
}

// undo notes how to take a change back. It is called while trying only: a
// function that is made for nothing costs more than the change.
func (g *Graph) undo(f func()) { g.log = append(g.log, f) }

// Touch must be called before a field of the node is changed. X, where it is
// set, is copied, so that it can be changed too.
func (g *Graph) Touch(n *Node) {
	if g.trying && g.first(n) {
		was, x := *n, n.X
		if x != nil {
			c := *x
			n.X = &c
		}
		g.log = append(g.log, func() {
			// Who is queued is restored with the queue, not with the node.
			q := n.queued
			*n = was
			n.X, n.queued = x, q
		})
	}
}

// AfterTry calls f for every node that the last Try changed and took back.
func (g *Graph) AfterTry(f func(*Node)) {
	for p := range g.saved {
		if n, ok := p.(*Node); ok && !n.dropped {
			f(n)
		}
	}
	g.saved = nil
}

func (g *Graph) touchEdge(e *Edge) {
	if g.trying && g.first(e) {
		was := *e
		was.kept = false
		var fn needFuncs
		if e.fn != nil {
			fn = *e.fn
		}
		g.log = append(g.log, func() {
			*e = was
			if e.fn != nil {
				*e.fn = fn
			}
		})
	}
}

func (g *Graph) touchPrefix(p *Prefix) {
	if g.trying && g.first(p) {
		was := *p
		g.log = append(g.log, func() { *p = was })
	}
}

func (g *Graph) touchClaim(c *Claim) {
	if g.trying && g.first(c) {
		was := *c
		g.log = append(g.log, func() { *c = was })
	}
}

func (g *Graph) first(p any) bool {
	if _, ok := g.saved[p]; ok {
		return false
	}
	g.saved[p] = struct{}{}
	return true
}
