package scheduler

import (
	"math"
	"slices"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// window is how many operations wait for a worker. What more is due stays due:
// an operation that waits is memory, and what it is to do may be overtaken.
var window = 4096 // a variable for tests

// dueList is nodes that are due for an operation, in their order.
type dueList struct {
	nodes []*graph.Node
	head  int
}

func (l *dueList) len() int { return len(l.nodes) - l.head }

func (l *dueList) grow(n int) { l.nodes = slices.Grow(l.nodes, n) }

func (l *dueList) push(n *graph.Node) {
	if len(l.nodes) == cap(l.nodes) && l.head > len(l.nodes)/2 {
		l.nodes = slices.Delete(l.nodes, 0, l.head)
		l.head = 0
	}
	l.nodes = graph.Push(l.nodes, n)
}

// take returns the first n nodes; they stay as they are until the next push.
func (l *dueList) take(n int) []*graph.Node {
	out := l.nodes[l.head : l.head+n]
	if l.head += n; l.head < len(l.nodes) {
		return out
	}
	l.head, l.nodes = 0, l.nodes[:0]
	if cap(l.nodes) > maxSpare {
		l.nodes = nil
	}
	return out
}

// dueOf is the list on which a node waits: what must go waits until all else
// that is due has begun, since what is in place may wait for what is created.
func (e *engine) dueOf(n *graph.Node) *dueList {
	if n.Leaving {
		return &e.going
	}
	return &e.making
}

// room is how many operations may begin now: all, where their order is counted.
func (e *engine) room() int {
	if e.inFull || e.out.full() {
		return math.MaxInt
	}
	return window - len(e.ready) - e.exec.Waiting()
}

// beginAll lets everything begin that is due, so that a plan starts from what
// is under way and what is not.
func (e *engine) beginAll() {
	e.inFull = true
	e.think()
	e.inFull = false
}

// think works through all nodes whose circumstances changed, until none is
// left. Operations begin only when every node that must go has been told so:
// else things would be built on what is about to leave.
func (e *engine) think() {
	for {
		for n := e.g.Dirty(); n != nil; n = e.g.Dirty() {
			e.under(n.Cause, n, func() { e.consider(n) })
		}
		if !e.actOn(&e.making) && !e.actOn(&e.going) { // going finds no room while making does not
			e.turns = nil
			return
		}
	}
}

// actOn acts on the first of the nodes that are due; it reports whether it did.
func (e *engine) actOn(l *dueList) bool {
	if l.len() == 0 {
		return false
	}
	n := min(e.room(), l.len())
	if n <= 0 {
		return false
	}
	e.ready = slices.Grow(e.ready, n)
	for _, n := range l.take(n) { // acting makes none due
		if other := e.dueOf(n); other != l {
			other.push(n)
			continue
		}
		e.under(n.Cause, n, func() { e.act(n) })
	}
	return true
}

// act begins the operation that a node was found to need, unless things have
// changed since; then the node is considered again anyway.
func (e *engine) act(n *graph.Node) {
	e.setFlag(n, flagDue, false)
	k := kindOf(n)
	if k == nil || n.Moving || n.Dropped() {
		return
	}
	a := e.assess(n)
	e.awaitRead(n, a)
	if a.due > doLook {
		e.start(n, k, a)
	}
}

const opChunk = 64

// opPool makes operations, by the chunk, and takes them back when all about
// them is told.
type opPool struct {
	fresh []op
	used  []*op
}

func (p *opPool) get() *op {
	if n := len(p.used); n > 0 {
		o := p.used[n-1]
		p.used = p.used[:n-1]
		return o
	}
	if len(p.fresh) == 0 {
		p.fresh = make([]op, opChunk)
	}
	o := &p.fresh[0]
	p.fresh = p.fresh[1:]
	return o
}

func (p *opPool) put(o *op) {
	if len(p.used) < window {
		*o = op{}
		p.used = append(p.used, o)
	}
}
