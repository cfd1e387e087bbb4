package engine

import (
	"math"
	"slices"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// Window is how many operations wait for a worker. What more is due stays due:
// an operation that waits is memory, and what it is to do may be overtaken.
var Window = 4096 // a variable for tests

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
	if cap(l.nodes) > MaxSpare {
		l.nodes = nil
	}
	return out
}

// dueOf is the list on which a node waits: what must go waits until all else
// that is due has begun, since what is in place may wait for what is created.
func (e *Engine) dueOf(n *graph.Node) *dueList {
	if n.Leaving {
		return &e.going
	}
	return &e.making
}

// Crowded reports whether nodes are due that found no room to begin.
func (e *Engine) Crowded() bool { return e.making.len()+e.going.len() > 0 }

// room is how many operations may begin now: all, where their order is counted.
func (e *Engine) room() int {
	if e.inFull || e.Out.Full() {
		return math.MaxInt
	}
	return Window - len(e.Ready) - e.Exec.Waiting()
}

// BeginAll lets everything begin that is due, so that a plan starts from what
// is under way and what is not.
func (e *Engine) BeginAll() {
	e.inFull = true
	e.SettleDirty()
	e.inFull = false
}

// SettleDirty works through all nodes whose circumstances changed, until none is
// left. Operations begin only when every node that must go has been told so:
// else things would be built on what is about to leave. Leftovers are judged when nothing
// is left to evaluate: then every value has derived what belongs to it.
func (e *Engine) SettleDirty() {
	for {
		for n := e.G.Dirty(); n != nil; n = e.G.Dirty() {
			if e.halted() {
				return
			}
			e.CausedBy(n.Cause, n, func() { e.evaluate(n) })
		}
		if e.judgeLeft() {
			continue
		}
		if e.actOn(&e.making) || e.actOn(&e.going) { // going finds no room while making does not
			continue
		}
		if !e.wakePatient() {
			e.turns = nil
			return
		}
	}
}

func (e *Engine) halted() bool { return e.halt != nil && e.halt() }

// actOn acts on the first of the nodes that are due; it reports whether it did.
func (e *Engine) actOn(l *dueList) bool {
	if l.len() == 0 {
		return false
	}
	n := min(e.room(), l.len())
	if n <= 0 {
		return false
	}
	e.Ready = slices.Grow(e.Ready, n)
	for _, n := range l.take(n) { // acting makes none due
		if e.halted() {
			return false
		}
		if other := e.dueOf(n); other != l {
			other.push(n)
			continue
		}
		e.CausedBy(n.Cause, n, func() { e.act(n) })
	}
	return true
}

// act begins the operation that is due for a node, unless the circumstances have changed. A change of the node
// leads to another evaluation anyway. That a missing need is about to be met is no such change, so the
// node is evaluated again here.
func (e *Engine) act(n *graph.Node) {
	e.SetFlag(n, assess.FlagDue, false)
	k := kind.Of(n)
	if k == nil || n.Busy() || n.Dropped() {
		return
	}
	a := e.Assess(n)
	e.awaitRead(n, a)
	switch {
	case a.Due > assess.DoLook:
		e.start(n, k, a)
	case n.Leaving && !a.Leaving:
		e.G.Wake(n)
	}
}

const opChunk = 64

// opPool makes operations, by the chunk, and takes them back when all about
// them is told.
type opPool struct {
	fresh []kind.Op
	used  []*kind.Op
}

func (p *opPool) get() *kind.Op {
	if n := len(p.used); n > 0 {
		o := p.used[n-1]
		p.used = p.used[:n-1]
		return o
	}
	if len(p.fresh) == 0 {
		p.fresh = make([]kind.Op, opChunk)
	}
	o := &p.fresh[0]
	p.fresh = p.fresh[1:]
	return o
}

// Put takes an operation back.
func (p *opPool) Put(o *kind.Op) {
	if len(p.used) < Window {
		*o = kind.Op{}
		p.used = append(p.used, o)
	}
}
