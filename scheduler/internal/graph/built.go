package graph

// With what the actual value of a node was built: for each need that has a Project, the
// part of the needed thing as it was when the operation began that made the node,
// or else when the node was first read beside it. The edges of the actual value keep it.
//
// Of many that would do, the actual value depends on the one it was built with, or on another
// of which the part is the same. When that must go, the need is not met as long as
// the actual value is in place, whatever else is there: so the value goes first.

// build notes with what the actual value of n is built by an operation that begins.
func (g *Graph) build(n *Node) {
	for _, e := range n.Out {
		if e.role&ofActual == 0 {
			continue
		}
		g.saveEdge(e)
		e.set(previous, e.role&ofDesired == 0)
		if !e.is(previous) && e.projects() && e.To != nil && e.To.Presence == Present {
			g.note(e, e.To)
		}
	}
}

// Made notes that the operation on n that began last has succeeded: what the value
// before it needed has no part in the actual one any more.
func (g *Graph) Made(n *Node) { g.dropRole(n, func(e *Edge) bool { return e.is(previous) }, ofActual) }

// NoteBuiltWith tells that n was read: as far as nobody knows with what it was built, that
// is what is there.
func (g *Graph) NoteBuiltWith(n *Node) {
	for _, e := range n.Out {
		if e.role&ofActual != 0 && e.projects() && !e.fn.projKnown && e.partOf(e.To) {
			g.note(e, e.To)
		}
	}
}

// Outdated reports whether the actual value of n was built with something that has changed.
func (n *Node) Outdated() bool {
	for _, e := range n.Out {
		if e.built() && e.partOf(e.To) && e.fn.project(e.To) != e.fn.projected {
			return true
		}
	}
	return false
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
	t.EachIncoming(func(e *Edge) {
		if e.role&ofActual == 0 || !e.projects() || e.From.Presence == Absent || !e.partOf(t) {
			return
		}
		switch known := e.fn.projKnown; {
		case known && e.fn.projected != e.fn.project(t):
			out = append(out, Stale{e.From, true})
		case !known && seen:
			g.note(e, t)
			out = append(out, Stale{e.From, false})
		}
	})
	return out
}

func (e *Edge) projects() bool { return e.fn != nil && e.fn.need.Project != nil }

// judges reports whether the need accepts only some of what is there.
func (e *Edge) judges() bool { return e.fn != nil && e.fn.need.Pass != nil }

// built reports whether it is known with which part the actual value was built.
func (e *Edge) built() bool { return e.projects() && e.fn.projKnown }

// note takes the part of t as what the actual value is built with.
func (g *Graph) note(e *Edge, t *Node) {
	g.saveEdge(e)
	e.fn.projKnown, e.fn.projected = true, e.fn.project(t)
	g.judgePinned(e)
}

// judgePinned judges a need of any key once more, since it is known by now that its actual value
// cannot move to another.
func (g *Graph) judgePinned(e *Edge) {
	if e.any != nil && e.State != Satisfied {
		g.judgeAny(e, nil)
	}
}

// partOf reports whether the actual value can have been built with t. It cannot where it was
// found, and depends on t only because what it was built with is not there yet.
func (e *Edge) partOf(t *Node) bool {
	return t != nil && t.Presence == Present && (e.any == nil || e.passes(t))
}

// pinned reports whether of many the actual value was built with the one that it depends on,
// which is there still.
func (e *Edge) pinned() bool {
	return e.any != nil && e.built() && e.To != nil && e.To.Presence != Absent
}

// mayMoveTo reports whether the actual value can depend on m instead, as it is.
func (e *Edge) mayMoveTo(m *Node) bool {
	return !e.pinned() || m == e.To || e.fn.project(m) == e.fn.projected
}

// remember takes over from the needs of the actual value, as they were so far, on which of
// many it stands, and as a need of that value also with what it was built. Where an
// operation was under way that failed, what is there may be as it was before: the needs of the
// value before it count, and of several the last in the list.
func (e *Edge) remember(edges []*Edge, r role) {
	if e.any == nil && !e.projects() {
		return
	}
	before := false
	for _, was := range edges {
		if was == e || was.role&ofActual == 0 || !was.alike(e) || before && !was.is(previous) {
			continue
		}
		before = was.is(previous)
		e.To = was.To
		if r == ofActual && e.projects() && was.built() {
			e.fn.projKnown, e.fn.projected = true, was.fn.projected
		}
	}
}

// alike reports whether two needs read alike, have the same sorts of functions, and are as much
// the first, or the second, of their value that does. Functions themselves cannot be compared.
func (e *Edge) alike(o *Edge) bool {
	return e.Why == o.Why && e.projects() == o.projects() && e.judges() == o.judges() && e.nth == o.nth &&
		e.is(together) == o.is(together) && e.any == o.any && (e.any != nil || e.To == o.To)
}

// inherit lets the needs of the desired value take over from those of the actual one what
// it was built with: it is what is desired, or may be.
func (g *Graph) inherit(n *Node) {
	for _, e := range n.Out {
		if e.role != ofDesired || !e.projects() {
			continue
		}
		g.saveEdge(e)
		to := e.To
		e.remember(n.Out, ofActual)
		if e.To != to { // it has not been counted so far
			g.judgeAny(e, nil)
		} else {
			g.judgePinned(e)
		}
	}
}
