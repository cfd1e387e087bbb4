package graph

import "fmt"

// Phase is what is being done to a node. Only the methods of [Graph] whose names begin with
// Become change it.
//
//	            ┌────────────────── BecomeIdle ───────────────────┐
//	            ▼                                                 │
//	Idle ─► Queued ─► Reading ────────────────────────────────────┤
//	  │         └───────── (its kind was unregistered) ───────────┤
//	  └───► Operating ────────────────────────────────────────────┤
//	            │  ▲                                              │
//	            ▼  └── BecomeLate                                 │
//	         Overdue ───────── (its kind was unregistered) ───────┘
type Phase uint8

// The phases.
const (
	// Idle: nothing is under way.
	Idle Phase = iota
	// Queued: it waits to be read with others of its kind.
	Queued
	// Reading: a read of it is under way.
	Reading
	// Operating: an operation on it is under way.
	Operating
	// Overdue: that operation ran past its deadline, and may still do anything.
	Overdue

	phases
)

// String is the phase in a word.
func (p Phase) String() string {
	return [...]string{"idle", "queued", "reading", "operating", "overdue"}[p]
}

// transitions says from where each phase can be reached.
var transitions = [phases][phases]bool{
	Idle:      {Queued: true, Reading: true, Operating: true, Overdue: true},
	Queued:    {Idle: true},
	Reading:   {Queued: true},
	Operating: {Idle: true, Overdue: true},
	Overdue:   {Operating: true},
}

// Busy reports whether something is under way, so that whoever needs the node waits.
func (n *Node) Busy() bool { return n.Phase != Idle }

// Operates reports whether an operation is under way, in time or not.
func (n *Node) Operates() bool { return n.Phase == Operating || n.Phase == Overdue }

// BeingRead reports whether a read is under way or about to be.
func (n *Node) BeingRead() bool { return n.Phase == Queued || n.Phase == Reading }

func (g *Graph) become(n *Node, p Phase) {
	if !transitions[p][n.Phase] && g.broken == nil {
		g.broken = fmt.Errorf("%s becomes %s while it is %s", n.Key, p, n.Phase)
	}
	g.Save(n)
	n.Phase = p
}

// BecomeQueued: the node is to be read.
func (g *Graph) BecomeQueued(n *Node) {
	g.become(n, Queued)
	g.phaseChanged(n, false)
}

// BecomeReading: the read has begun.
func (g *Graph) BecomeReading(n *Node) { g.become(n, Reading) }

// BecomeOperating: an operation begins. making tells that it may create something:
// what the node needs is needed from then on by what may be there.
func (g *Graph) BecomeOperating(n *Node, making bool) {
	g.become(n, Operating)
	if making {
		if !n.MayExist {
			g.settleLevel(n)
		}
		g.adoptNeeds(n)
		g.use(n)
		g.build(n)
	}
	g.phaseChanged(n, making)
}

// BecomeOverdue: the deadline of the operation has passed. What is there by now nobody
// knows: SetActual says so next.
func (g *Graph) BecomeOverdue(n *Node) { g.become(n, Overdue) }

// BecomeLate: an operation that was overdue has ended. It operates again, so that it can be
// settled; where the kind can be read, that is believed and not the outcome.
func (g *Graph) BecomeLate(n *Node) {
	g.become(n, Operating)
	n.Peers(g.Wake)
}

// BecomeIdle: what was under way has ended. Who needs the node is told with what came of it,
// by SetActual or Refresh.
func (g *Graph) BecomeIdle(n *Node) { g.become(n, Idle) }

// EndRead makes a node idle that was read, or is not read after all.
func (g *Graph) EndRead(n *Node) {
	g.BecomeIdle(n)
	g.phaseChanged(n, false)
}

func (g *Graph) phaseChanged(n *Node, making bool) {
	g.setMayExist(n, making || mayExist(n))
	g.refresh(n, false)
	g.rejudgeCycles()
}
