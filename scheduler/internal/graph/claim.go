package graph

import (
	"cmp"
	"slices"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Claim is one such name: who wants it, who actually has it.
type Claim struct {
	kv.Claim
	wanters []*Node // in the order of their strength
	holders []*Node
	// owner is the wanter that actually had the name before any other: nobody
	// takes it from there while that wants it, also while it is away for a time.
	owner *Node
}

// Winner is the node whose claim counts: the owner, or the strongest of those that
// want a name that nobody has had.
func (c *Claim) Winner() *Node {
	switch {
	case c.owner != nil:
		return c.owner
	case len(c.wanters) == 0:
		return nil
	}
	return c.wanters[0]
}

// Owned reports whether the name has an owner, which keeps it.
func (c *Claim) Owned() bool { return c.owner != nil }

// names are the claims of a node. They are replaced, never changed in place.
type names struct {
	want, hold []*Claim
	// lost is a claim that a stronger value has; the node's own is void.
	lost *Claim
}

// Extra is the part of a node that most nodes do without.
type Extra struct {
	// The engine's own; slices are replaced, never changed in place.
	Wants    []Want
	Invalid  error // why the newest wanted value is refused
	Refused  bool  // Invalid is what an operation said of the value
	Asked    any   // that value, if it could be decoded
	Children []*Node
	Derived  error // why a derived value could not be taken
	Err      error // of the last operation
	Attempts int
	Lapses   int // failures in between that were none: what it needs had gone
	Retries  any // how failures of the want that counts are tried again, if it says so
	held     Hold
	NextTry  int64 // unix nanoseconds, with UntilTime
	Repairs  []int64
	GoneAt   int64   // when it was seen to be gone, while that is not believed
	Secrets  uint64  // digest of those it was made with, 0 if they are not known
	Lapsed   bool    // what it needs went while an operation was under way
	Flaps    []int64 // when it went because what it needs went
	CalmAt   int64   // when it may be made again after that
	Found    any     // what was there before we took it over
	Taken    bool    // it was found, made by somebody else, and taken over
	Left     bool    // somebody else changed it, and it is left so
	By       string  // who that was when it drifted last, if it is known
	LastOp   uint8
	LastTo   any // what the failed operation wanted to reach
}

// Quiet reports whether nothing is wrong with the node and one source asks for it.
func (x *Extra) Quiet() bool {
	return x.Wants == nil && x.Invalid == nil && x.Derived == nil && x.Err == nil && !x.Left
}

// Want is what one source asks of a key.
type Want struct {
	Source  int8
	Value   any
	Invalid error
}

// Extra returns the rare part of a node and makes it if needed.
func (g *store) Extra(n *Node) *Extra {
	g.Save(n)
	if n.X == nil {
		n.X = &Extra{}
	}
	return n.X
}

// setNames sets the claims of a node.
func (g *Graph) setNames(n *Node, now names) {
	g.Save(n)
	n.names = nil
	if len(now.want)+len(now.hold) > 0 || now.lost != nil {
		n.names = &now
	}
}

func (n *Node) claims() names {
	if n.names == nil {
		return names{}
	}
	return *n.names
}

// Lost is a claim of the node that a stronger value has, nil if there is none.
func (n *Node) Lost() *Claim { return n.claims().lost }

func (g *Graph) claimsOf(n *Node, v any) []*Claim {
	if v == nil || n.Kind == nil || n.Kind.Claims == nil {
		return nil
	}
	ids := n.Kind.Claims(n.Key, v)
	out := make([]*Claim, 0, len(ids))
	for _, id := range ids {
		c := g.claims[id.ID]
		if c == nil {
			c = &Claim{Claim: id}
			g.claims[id.ID] = c
			if g.trying {
				g.undo(func() { delete(g.claims, id.ID) })
			}
		}
		out = append(out, c)
	}
	return out
}

func (g *Graph) setWantClaims(n *Node, v any) {
	now := g.claimsOf(n, v)
	all := n.claims()
	was := all.want
	if len(now) == 0 && len(was) == 0 {
		return
	}
	all.want = now
	g.setNames(n, all)
	for _, c := range was {
		if !slices.Contains(now, c) {
			g.saveClaim(c)
			c.wanters = delWithout(c.wanters, n)
			g.decide(c)
		}
	}
	for _, c := range now {
		g.saveClaim(c)
		c.wanters = delWithout(c.wanters, n)
		i, _ := slices.BinarySearchFunc(c.wanters, n, stronger)
		c.wanters = slices.Insert(slices.Clone(c.wanters), i, n)
		g.decide(c)
	}
	if len(now) == 0 {
		g.lose(n, nil)
	}
}

// stronger orders claimants that have nothing yet: by source, then by key.
func stronger(a, b *Node) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Key, b.Key))
}

func (n *Node) rank() int8 {
	for n.Base != nil {
		n = n.Base
	}
	return n.Source
}

// findOwner makes the wanter that actually has the name its owner. An owner that
// no longer wants the name has lost it.
func (c *Claim) findOwner() {
	if c.owner != nil && !slices.Contains(c.wanters, c.owner) {
		c.owner = nil
	}
	if c.owner != nil {
		return
	}
	for _, n := range c.wanters {
		if n.Presence == Present && !n.Foreign && slices.Contains(c.holders, n) {
			c.owner = n
			return
		}
	}
}

// own has n own the names that it wants and actually has, those that nobody owns.
func (g *Graph) own(n *Node) {
	if n.Presence != Present || n.Foreign {
		return
	}
	for _, c := range n.claims().want {
		if c.owner == nil && slices.Contains(c.holders, n) {
			g.saveClaim(c)
			g.decide(c)
		}
	}
}

// decide tells every claimant whether it lost. The claim is saved already.
func (g *Graph) decide(c *Claim) {
	c.findOwner()
	for _, n := range c.wanters {
		var lost *Claim
		for _, w := range n.claims().want {
			if w.Winner() != n {
				lost = w
				break
			}
		}
		g.lose(n, lost)
	}
	g.wakeAll(c.holders) // they may have to make way
	g.forgetClaim(c)
}

func (g *Graph) lose(n *Node, c *Claim) {
	all := n.claims()
	if all.lost == c {
		return
	}
	all.lost = c
	g.setNames(n, all)
	g.Wake(n)
	g.judgeUnit(n)
}

// setHoldClaims records what the actual value of n has; also keeps what it had.
func (g *Graph) setHoldClaims(n *Node, now []*Claim, also bool) {
	all := n.claims()
	was := all.hold
	if len(now) == 0 && (len(was) == 0 || also) {
		return
	}
	next := slices.Clone(now)
	for _, c := range was {
		switch {
		case slices.Contains(now, c):
		case also:
			next = append(next, c)
		default:
			g.saveClaim(c)
			c.holders = delWithout(c.holders, n)
			g.wakeAll(c.wanters)
			g.forgetClaim(c)
		}
	}
	for _, c := range now {
		if !slices.Contains(was, c) {
			g.saveClaim(c)
			c.holders = append(slices.Clone(c.holders), n)
		}
	}
	all.hold = next
	g.setNames(n, all)
}

func (g *Graph) forgetClaim(c *Claim) {
	if len(c.wanters)+len(c.holders) == 0 && !g.trying {
		delete(g.claims, c.ID)
	}
}

// Holder finds who actually has a name that n wants and is not n.
func (n *Node) Holder() (*Claim, *Node) {
	for _, c := range n.claims().want {
		for _, h := range c.holders {
			if h != n {
				return c, h
			}
		}
	}
	return nil, nil
}

// NameWantedBy finds who waits for a name that n actually has and no longer wants, nil
// if nobody does.
func (n *Node) NameWantedBy() *Node {
	for _, c := range n.claims().hold {
		if w := c.Winner(); w != nil && w != n {
			return w
		}
	}
	return nil
}

func delWithout(ns []*Node, n *Node) []*Node {
	out := make([]*Node, 0, len(ns))
	for _, m := range ns {
		if m != n {
			out = append(out, m)
		}
	}
	return out
}

// Goal is the value that should be in place after conflicts are decided:
// the desired one, or nil if another value has what it claims.
func (n *Node) Goal() any {
	if n.Lost() != nil {
		return nil
	}
	return n.Desired
}
