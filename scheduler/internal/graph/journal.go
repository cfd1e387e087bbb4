package graph

import (
	"errors"
	"slices"
)

// journal is what Try needs to take changes back. Its room is kept from one
// Try to the next.
type journal struct {
	saved map[any]struct{} // what is in it already
	log   []entry
	nodes []savedNode
}

// entry takes back one change: a node of the journal, or anything else.
type entry struct {
	node int
	undo func()
}

type savedNode struct {
	n   *Node
	was Node
	x   *Extra
}

// Try runs f and takes back every change that it made to the graph.
func (g *Graph) Try(f func()) {
	if g.tries++; g.CheckTry && (g.tries <= 2 || g.tries%8 == 0) {
		was := g.books()
		defer func() { g.broken = errors.Join(g.broken, unlike(was, g.books())) }()
	}
	j := &g.journal
	if j.saved == nil || len(j.saved) > maxSpare {
		j.saved, j.log, j.nodes = map[any]struct{}{}, nil, nil
	}
	clear(j.saved)
	clear(j.log)
	clear(j.nodes)
	j.log, j.nodes = j.log[:0], j.nodes[:0]
	g.trying = true
	dirty, head, cycles, together := g.dirty, g.head, g.cycles, g.together
	g.dirty, g.head, g.cycles = nil, 0, slices.Clone(cycles)
	defer func() {
		for _, n := range g.dirty[g.head:] {
			n.queued = false
		}
		for i := len(j.log) - 1; i >= 0; i-- {
			if undo := j.log[i].undo; undo != nil {
				undo()
			} else {
				j.nodes[j.log[i].node].restore()
			}
		}
		g.trying, g.dirty, g.head, g.cycles, g.together = false, dirty, head, cycles, together
	}()
	f()
}

// restore makes the node what it was. Who is queued is restored with the queue.
func (s *savedNode) restore() {
	q := s.n.queued
	*s.n = s.was
	s.n.X, s.n.queued = s.x, q
}

// Changes is how many changes the Try that runs would have to take back.
func (g *store) Changes() int { return len(g.journal.log) }

// Tried calls f for every node that is changed by the Try that runs, or was by
// the last one, in the order of the changes. Those that it made are dropped
// when it is over.
func (g *store) Tried(f func(*Node)) {
	for i := range g.journal.nodes {
		f(g.journal.nodes[i].n)
	}
}

// undo notes how to take a change back. It is called while trying only: a
// function that is made for nothing costs more than the change.
func (g *store) undo(f func()) { g.journal.log = append(g.journal.log, entry{undo: f}) }

// Trying reports whether a Try runs.
func (g *store) Trying() bool { return g.trying }

// OnUndo has f called when what the Try that runs has changed is taken back, for what
// callers keep beside the graph. Outside of one it does nothing.
func (g *store) OnUndo(f func()) {
	if g.trying {
		g.undo(f)
	}
}

// Save must be called before a field of the node is changed. X, where it is
// set, is copied, so that it can be changed too.
func (g *store) Save(n *Node) {
	if !g.trying || !g.first(n) {
		return
	}
	j := &g.journal
	j.log = append(j.log, entry{node: len(j.nodes)})
	j.nodes = append(j.nodes, savedNode{n, *n, n.X})
	if n.X != nil {
		c := *n.X
		n.X = &c
	}
}

func (g *store) saveEdge(e *Edge) {
	if g.trying && g.first(e) {
		was := *e
		was.set(kept, false)
		var fn needFuncs
		if e.fn != nil {
			fn = *e.fn
		}
		g.undo(func() {
			*e = was
			if e.fn != nil {
				*e.fn = fn
			}
		})
	}
}

func (g *store) savePrefix(p *Prefix) {
	if g.trying && g.first(p) {
		was := *p
		g.undo(func() { *p = was })
	}
}

func (g *store) saveClaim(c *Claim) {
	if g.trying && g.first(c) {
		was := *c
		g.undo(func() { *c = was })
	}
}

func (g *store) first(p any) bool {
	if _, ok := g.journal.saved[p]; ok {
		return false
	}
	g.journal.saved[p] = struct{}{}
	return true
}
