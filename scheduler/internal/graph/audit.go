package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Audit looks at every node and tells where the books of the graph do not agree with
// each other: what is counted with what there is, places in lists, and the order that
// keeps dependencies free of cycles. It costs as much as the graph is large; tests call it
// after every turn.
func (g *Graph) Audit() error {
	a := auditor{g: g, books: map[*Node]*book{}}
	g.All(func(n *Node) bool { a.needs(n); return true })
	g.All(func(n *Node) bool { a.node(n); return true })
	a.cycles()
	a.folders()
	a.claims()
	a.queue()
	if a.ties != g.together {
		a.say("the graph counts %d needs together, there are %d", g.together, a.ties)
	}
	if g.broken != nil {
		a.wrong = append(a.wrong, g.broken)
	}
	return errors.Join(a.wrong...)
}

type auditor struct {
	g     *Graph
	books map[*Node]*book
	ties  int
	wrong []error
}

// book is what there is of all that a node counts.
type book struct{ missing, unsure, standing, used, ties int32 }

func (a *auditor) of(n *Node) *book {
	b := a.books[n]
	if b == nil {
		b = &book{}
		a.books[n] = b
	}
	return b
}

func (a *auditor) say(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Errorf(format, args...))
}

// needs takes stock of what a node needs.
func (a *auditor) needs(n *Node) {
	b := a.of(n)
	for _, e := range n.Out {
		switch list := e.list(); {
		case e.From != n || e.role == 0:
			a.say("%s has a need that is not its own, for %s", n.Key, e.Target())
		case int(e.inIdx) >= len(list) || list[e.inIdx] != e:
			a.say("%s → %s is not where it says among those who need that", n.Key, e.Target())
		case e.orders() && e.To.level >= n.level:
			a.say("%s → %s is upside down: level %d on %d", n.Key, e.To.Key, n.level, e.To.level)
		case e.is(counted) && (!n.MayExist || e.role&ofActual == 0):
			a.say("%s → %s is counted for what is not there", n.Key, e.To.Key)
		case n.MayExist && e.role&ofActual != 0 && e.To != nil && !e.is(counted|cut|together):
			a.say("%s → %s is there and is not counted", n.Key, e.To.Key)
		}
		if !e.is(together | cut) {
			a.state(e)
		}
		if e.is(counted) {
			a.of(e.To).standing++
		}
		if e.is(together) {
			b.ties++
			a.of(e.To).ties++
			a.ties++
		}
		if e.fn != nil && e.fn.uses != nil {
			a.of(e.fn.uses).used++
		}
		switch {
		case e.role&ofDesired == 0:
		case e.State == Missing:
			b.missing++
		case e.State == Unsure:
			b.unsure++
		}
	}
}

// state tells whether the state of a need is what the needed node, or any of those below
// the prefix, makes it.
func (a *auditor) state(e *Edge) {
	met := func(t *Node) bool { return t.avail == Satisfied && e.passes(t) && !a.g.ends(e, t) }
	is := Missing
	switch {
	case e.any == nil && met(e.To):
		is = Satisfied
	case e.any == nil && e.To.avail == Unsure:
		is = Unsure
	case e.any == nil:
	case e.State == Satisfied:
		if e.To != nil && met(e.To) {
			is = Satisfied
		}
	default:
		a.g.members(e.any, func(t *Node) bool {
			if t != e.From && met(t) && e.mayMoveTo(t) {
				is = Satisfied
			}
			return is != Satisfied
		})
		switch {
		case is == Satisfied || e.pinned() && e.To.avail == Missing:
		case e.any.unsure > 0 || a.g.isBlind(e.any):
			is = Unsure
		}
	}
	switch {
	case e.is(closesCycle) && is == Satisfied:
	case e.State != is:
		a.say("%s → %s is met as %d, and should be as %d", e.From.Key, e.Target(), e.State, is)
	}
}

// cycles looks at the needs that would close a cycle.
func (a *auditor) cycles() {
	known := map[*Edge]bool{}
	for _, e := range a.g.cycles {
		known[e] = true
	}
	a.g.All(func(n *Node) bool {
		for _, e := range n.Out {
			if e.is(listed) != known[e] || e.is(closesCycle|cut) && !known[e] {
				a.say("%s → %s is not listed as what closes a cycle, or is so without reason", n.Key, e.Target())
			}
		}
		return true
	})
}

// folders looks at the tree of keys, and at who watches a prefix.
func (a *auditor) folders() {
	for path, d := range a.g.dirs {
		if d.path != path || path != "" && (d.parent == nil || d.parent.subs[path] != d) {
			a.say("the folder %s is not where it says", path)
		}
		if path != "" && d.empty() {
			a.say("the folder %s holds nothing", path)
		}
		for _, p := range d.watches {
			unsure := int32(0)
			a.g.members(p, func(n *Node) bool {
				if n.avail == Unsure {
					unsure++
				}
				return true
			})
			if p.unsure != unsure || p.dir != d || len(p.in) == 0 {
				a.say("%s* counts %d of which nothing is known, there are %d; %d need one", p.prefix, p.unsure, unsure, len(p.in))
			}
			for _, folder := range p.also {
				if !slices.Contains(folder.also, p) {
					a.say("%s* is not known in %s", p.prefix, folder.path)
				}
			}
		}
	}
}

// claims looks at the names that only one may have.
func (a *auditor) claims() {
	for id, c := range a.g.claims {
		if len(c.wanters)+len(c.holders) == 0 {
			a.say("nobody claims %s", id)
		}
		if c.owner != nil && !slices.Contains(c.wanters, c.owner) {
			a.say("%s owns %s, which it does not want", c.owner.Key, id)
		}
		for _, n := range c.wanters {
			if !slices.Contains(n.claims().want, c) {
				a.say("%s is thought to want %s", n.Key, id)
			}
		}
		for _, n := range c.holders {
			if !slices.Contains(n.claims().hold, c) {
				a.say("%s is thought to have %s", n.Key, id)
			}
		}
	}
	a.g.All(func(n *Node) bool {
		var lost *Claim
		for _, c := range n.claims().want {
			if a.g.claims[c.ID] != c || !slices.Contains(c.wanters, n) {
				a.say("%s wants %s, which does not know it", n.Key, c.ID)
			}
			if w := c.Winner(); lost == nil && w != n {
				lost = c
			}
		}
		for _, c := range n.claims().hold {
			if a.g.claims[c.ID] != c || !slices.Contains(c.holders, n) {
				a.say("%s has %s, which does not know it", n.Key, c.ID)
			}
		}
		if n.Lost() != lost {
			a.say("%s should have lost %v, and has lost %v", n.Key, lost, n.Lost())
		}
		return true
	})
}

// queue looks at the nodes that are to be evaluated.
func (a *auditor) queue() {
	queued := map[*Node]bool{}
	for _, n := range a.g.dirty[a.g.head:] {
		queued[n] = true
	}
	a.g.All(func(n *Node) bool {
		if n.queued != queued[n] {
			a.say("%s is not evaluated, or twice", n.Key)
		}
		return true
	})
}

func (a *auditor) node(n *Node) {
	if counts := (book{n.missing, n.unsure, n.Dependents, n.Used, n.unitEdges}); counts != *a.of(n) {
		a.say("%s counts %+v, there is %+v", n.Key, counts, *a.of(n))
	}
	if is := n.availability(); n.avail != is {
		a.say("%s satisfies as %d, and should as %d", n.Key, n.avail, is)
	}
	if !n.MayExist && mayExist(n) {
		a.say("%s may exist, and is not noted to", n.Key)
	}
	if timed := n.X != nil && n.X.NextTry != 0; timed != (n.Held() == UntilTime) {
		a.say("%s is held %s, and timed is %v", n.Key, n.Held(), timed)
	}
	if n.dir.nodes[n.dirIdx] != n {
		a.say("%s is not where it says in its folder", n.Key)
	}
}

// list is the list that the edge is in where it points.
func (e *Edge) list() []*Edge {
	if e.any != nil {
		return e.any.in
	}
	return e.To.In
}

// books is all that the graph knows, in words, so that it can be compared.
func (g *Graph) books() map[string]string {
	out := map[string]string{"": fmt.Sprint(g.together, g.cycles, g.dirty, g.head, g.nodes.count)}
	g.All(func(n *Node) bool {
		var b strings.Builder
		c := *n
		c.Mark = 0 // scratch
		fmt.Fprintf(&b, "%+v", c)
		if n.X != nil {
			fmt.Fprintf(&b, "\n%+v", *n.X)
		}
		if g.Changing(n) {
			fmt.Fprintf(&b, "\n%+v", g.changes[n])
		}
		for _, e := range n.Out {
			fmt.Fprintf(&b, "\n%p %+v", e, *e)
			if e.fn != nil {
				fmt.Fprintf(&b, " %p %q %v %q", e.fn.uses, e.fn.projected, e.fn.projKnown, e.fn.broken)
			}
		}
		out[string(n.Key)] = b.String()
		return true
	})
	for path, d := range g.dirs {
		var b strings.Builder
		fmt.Fprint(&b, d.nodes, len(d.subs))
		for _, p := range d.watches {
			fmt.Fprintf(&b, "\n%p %+v", p, *p)
		}
		fmt.Fprint(&b, d.also)
		out["folder "+path] = b.String()
	}
	for id, c := range g.claims {
		out["claim "+id] = fmt.Sprintf("%p %+v", c, *c)
	}
	return out
}

// unlike tells what differs between two states of the books.
func unlike(was, now map[string]string) error {
	var wrong []error
	for k, v := range was {
		if now[k] != v {
			wrong = append(wrong, fmt.Errorf("what was tried of %s was not taken back:\n%s\n%s", k, v, now[k]))
		}
	}
	for k, v := range now {
		if _, known := was[k]; !known {
			wrong = append(wrong, fmt.Errorf("what was tried has left %s:\n%s", k, v))
		}
	}
	return errors.Join(wrong...)
}
