package graph

import (
	"errors"
	"fmt"
)

// Audit looks at every node and tells where the books of the graph do not agree with
// each other: what is counted with what there is, places in lists, and the order that
// keeps worlds free of cycles. It costs as much as the graph is large; tests call it
// after every turn.
func (g *Graph) Audit() error {
	a := auditor{books: map[*Node]*book{}}
	g.All(func(n *Node) bool { a.needs(n); return true })
	g.All(func(n *Node) bool { a.node(n); return true })
	if a.ties != g.together {
		a.say("the graph counts %d needs together, there are %d", g.together, a.ties)
	}
	if g.broken != nil {
		a.wrong = append(a.wrong, g.broken)
	}
	return errors.Join(a.wrong...)
}

type auditor struct {
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
			a.say("%s → %s is counted for what is not in the world", n.Key, e.To.Key)
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

func (a *auditor) node(n *Node) {
	if counts := (book{n.missing, n.unsure, n.Dependents, n.Used, n.unitEdges}); counts != *a.of(n) {
		a.say("%s counts %+v, there is %+v", n.Key, counts, *a.of(n))
	}
	if is := n.availability(); n.avail != is {
		a.say("%s satisfies as %d, and should as %d", n.Key, n.avail, is)
	}
	if !n.MayExist && inWorld(n) {
		a.say("%s is in the world, and is not noted to be", n.Key)
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
