package graph

// A node that is in place and is about to become another value meets a need only if both values
// meet it: its change is announced as soon as it is known, and what accepts only the value in
// place depends on it no longer than until then, and nothing new comes to depend on it. Predicates
// may look at what only a read shows, so both values are wanted ones, or both were read, where that
// is possible.

// change is a change that was announced.
type change struct {
	was     any // the value in place
	then    any // what it becomes; nil: the desired value
	givenUp bool
	// deferred: it waits for its turn. What depends on the node stays until then, and nothing new
	// comes to depend on what will end.
	deferred bool
}

// AnnounceChange notes that n, which is in place with the value was, is about to become its desired
// value.
func (g *Graph) AnnounceChange(n *Node, was any) {
	g.setChange(n, &change{was: was, deferred: g.changes[n].deferred})
	g.refresh(n, true)
}

// EndChange notes that an announced change was made, or will not be.
func (g *Graph) EndChange(n *Node) {
	if g.Changing(n) {
		g.setChange(n, nil)
		g.refresh(n, true)
	}
}

// GiveUpChange notes whether an announced change was given up.
func (g *Graph) GiveUpChange(n *Node, yes bool) {
	if c, announced := g.changes[n]; announced && c.givenUp != yes {
		c.givenUp = yes
		g.setChange(n, &c)
		g.refresh(n, true)
	}
}

// DeferChange notes whether an announced change waits for its turn.
func (g *Graph) DeferChange(n *Node, yes bool) {
	if c, announced := g.changes[n]; announced && c.deferred != yes {
		c.deferred = yes
		g.setChange(n, &c)
		g.refresh(n, true)
	}
}

// Changing reports whether a change of n is announced.
func (g *needs) Changing(n *Node) bool {
	_, announced := g.changes[n]
	return announced
}

// ChangesFrom returns the value from which n is about to change.
func (g *Graph) ChangesFrom(n *Node) (was any, announced bool) {
	c, announced := g.changes[n]
	return c.was, announced
}

// setChange changes what is announced of n; nil for nothing.
func (g *needs) setChange(n *Node, c *change) {
	if g.trying {
		was, had := g.changes[n]
		g.undo(func() {
			if g.changes[n] = was; !had {
				delete(g.changes, n)
			}
		})
	}
	if c == nil {
		delete(g.changes, n)
		return
	}
	g.changes[n] = *c
}

// ends reports whether the edge's predicate accepts the node as it is, and not as it is about to be.
func (g *needs) ends(e *Edge, t *Node) bool {
	if e.fn == nil || e.fn.need.Pass == nil || t.Desired == nil {
		return false
	}
	c, announced := g.changes[t]
	if !announced || c.givenUp || c.deferred && e.is(counted) && e.To == t {
		return false
	}
	then := c.then
	if then == nil {
		then = t.Desired
	}
	return e.fn.pass(t, c.was) && !e.fn.pass(t, then)
}

// Ending returns something that depends on n and not on what n is about to become, nil for nothing.
func (g *needs) Ending(n *Node) (found *Node) {
	if !g.Changing(n) {
		return nil
	}
	n.EachIncoming(func(e *Edge) {
		if found == nil && e.is(counted) && g.ends(e, n) {
			found = e.From
		}
	})
	return found
}

// judgeDeferred judges an edge once more after it began to count, or ceased to: a deferred change
// ends only what does not depend on the node yet.
func (g *needs) judgeDeferred(e *Edge) {
	if !e.judges() || !g.changes[e.To].deferred {
		return
	}
	if e.any != nil {
		g.judgeAny(e, nil)
		return
	}
	g.judge(e)
}
