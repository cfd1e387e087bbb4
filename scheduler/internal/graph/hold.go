package graph

// Hold is why nothing is tried on a node although something is to be done. Only Hold,
// HoldForGood and EndHold of [Graph] change it.
//
//	            ┌──────────── EndHold ───────────┐
//	            ▼                                │
//	NotHeld ─► UntilTime ────────────────────────┤
//	  │         │    ▲  Hold                     │
//	  │         ▼    │  HoldForGood              │
//	  └──────► UntilChange ──────────────────────┘
type Hold uint8

// The holds.
const (
	NotHeld Hold = iota
	// UntilTime: something failed, or keeps changing. It is tried again at Extra.NextTry.
	UntilTime
	// UntilChange: it failed for good. It is tried again when something else is wanted, or
	// what is there has changed.
	UntilChange
)

// String is the hold in words.
func (h Hold) String() string { return [...]string{"not held", "until a time", "until a change"}[h] }

// Held says whether, and for how long, nothing is tried on the node.
func (n *Node) Held() Hold {
	if n.X == nil {
		return NotHeld
	}
	return n.X.held
}

// Hold leaves the node alone until a time, in unix nanoseconds.
func (g *Graph) Hold(n *Node, until int64) { g.setHold(n, UntilTime, until) }

// HoldForGood leaves the node alone until something changes. What it was about to become it
// does not become.
func (g *Graph) HoldForGood(n *Node) {
	g.setHold(n, UntilChange, 0)
	g.GiveUpChange(n, true)
}

// EndHold lets the node be tried again.
func (g *Graph) EndHold(n *Node) {
	if n.Held() == NotHeld {
		return
	}
	g.setHold(n, NotHeld, 0)
	g.GiveUpChange(n, false)
}

func (g *Graph) setHold(n *Node, h Hold, until int64) {
	x := g.Extra(n)
	x.held, x.NextTry = h, until
}
