package graph

import "github.com/plumb-net/plumb/scheduler/kv"

// Presence tells whether a thing is known to be there.
type Presence uint8

// The presences.
const (
	Absent Presence = iota
	Present
	Unknown
)

// Readiness tells how a need, or all needs of a node, are met.
type Readiness uint8

// The answers. Missing cascades; Unsure blocks and tears nothing down.
const (
	Satisfied Readiness = iota
	Missing
	Unsure
)

// Kind is what the graph must know of a kind. The functions are pure.
type Kind struct {
	Name   string
	Prefix Key
	// Observed kinds are never created by us.
	Observed bool
	// Reads tells that this kind can be read; Read that it was,
	// completely, at least once.
	Reads, Read bool
	// Blind is when the last read of all began, if that failed, else 0: what was
	// neither made nor read since (by Node.Stamp) is as last seen.
	Blind uint64
	// OnDemand kinds learn of a key when it is first needed: until it was
	// looked at, it is unknown.
	OnDemand bool
	// Impl is the engine's side of the kind.
	Impl any

	Needs  func(k Key, v any) []Need
	Claims func(k Key, v any) []kv.Claim
}

// Node is one key. There may be a million: its size is that of a class of the
// allocator, 240 bytes. Fields are changed through the methods of [Graph] only,
// except those in the last group, which belong to the engine; it calls
// [Graph.Save] before it changes them.
type Node struct {
	Key  Key
	Kind *Kind // nil: nobody registered for the key
	Base *Node // the node that this one is derived from

	// Desired is the last valid value that was asked for, nil if none.
	Desired any
	// Actual is what is believed to be there, Meta what an operation
	// remembered of it. With Presence Unknown they are the last belief.
	Actual, Meta any

	Out []*Edge
	In  []*Edge

	names *names // nil: it claims nothing

	dir    *Dir
	dirIdx int32 // place in dir, -1 once the node was dropped

	unitEdges       int32 // together needs from and to it
	level           int32 // above all that it depends on
	missing, unsure int32 // edges of the desired value in that state
	Dependents      int32 // edges of actual values of nodes that may exist, which end here
	Used            int32 // operations under way that count on its value as it is

	Presence Presence
	// Leaving: the node is in place and must go; it satisfies nobody.
	Leaving bool
	// Phase is what is being done to it; whoever needs it waits until that is over.
	Phase Phase
	// MayExist: something of it may be there, so what it depends on stays.
	MayExist bool
	// Foreign: it is there, not made by us.
	Foreign bool
	// Frozen: an operator holds it; nothing new builds on it.
	Frozen bool
	queued bool
	avail  Readiness

	// The engine's own.
	Mark     uint32 // scratch of one pass over the graph
	X        *Extra
	Via      *Node
	Cause    uint64
	Stamp    uint64
	Since    int64
	Revision uint64
	Source   int8 // index of the winning source, NoSource, or Derived
	State    uint8
	Flags    uint16
	Gen      uint32 // counts changes of Desired
}

// Special values of Node.Source.
const (
	NoSource int8 = -1
	Derived  int8 = -2
)

// Wanted reports whether somebody asks for the node.
func (n *Node) Wanted() bool { return n.Source != NoSource }

// Needs sums up the needs of the desired value.
func (n *Node) Needs() Readiness {
	switch {
	case n.missing > 0:
		return Missing
	case n.unsure > 0:
		return Unsure
	}
	return Satisfied
}

// Dropped reports whether the node is no longer in the graph.
func (n *Node) Dropped() bool { return n.dirIdx < 0 }

// availability is how the node satisfies a plain need.
func (n *Node) availability() Readiness {
	k := n.Kind
	switch {
	case k == nil:
		return Missing
	case k.Observed && (n.AsLastSeen() || k.Reads && !k.Read && n.Presence != Present):
		return Unsure
	case n.Presence == Absent && n.MayExist:
		return Unsure // it is being created: whoever is in place may wait for it
	case n.Presence == Absent:
		return Missing
	case n.Presence == Unknown:
		return Unsure
	case n.Leaving:
		return Missing
	case n.Busy(), n.Frozen, n.AsLastSeen():
		return Unsure
	}
	return Satisfied
}

// AsLastSeen reports whether the node is as it was last seen, for its kind cannot be read.
func (n *Node) AsLastSeen() bool {
	return n.Kind != nil && n.Kind.Blind != 0 && n.Stamp <= n.Kind.Blind
}

// Edge is one need of one node.
type Edge struct {
	From *Node
	// To is the needed node. For a prefix it is the node that satisfies the
	// need, or the last that did, or nil.
	To  *Node
	any *Prefix
	Why string
	fn  *needFuncs

	inIdx int32
	State Readiness
	role  role
	nth   uint8 // of the needs of its value that read alike
	flags edgeFlags
}

// edgeFlags are in one byte: with them, an edge and a list of one fit into 64
// bytes, a class of the allocator.
type edgeFlags uint8

const (
	together    edgeFlags = 1 << iota
	ofBase                // the need of a derived value for its base
	previous              // of the value before the operation that began last
	counted               // counted in To.Dependents
	closesCycle           // met, but only by going round a cycle
	cut                   // yields, for it would close a cycle
	listed                // in Graph.cycles
	kept                  // scratch of setNeeds
)

func (e *Edge) is(f edgeFlags) bool { return e.flags&f != 0 }

func (e *Edge) set(f edgeFlags, on bool) {
	if on {
		e.flags |= f
	} else {
		e.flags &^= f
	}
}

type role uint8

const (
	ofDesired role = 1 << iota
	ofActual
)

// conditions are what a Need asks for beside that something is there.
type conditions struct {
	Pass    func(k Key, value, meta any) bool
	Tell    func(value, meta any) string
	Project func(value, meta any) string
	Agree   func(value any) error
}

// needFuncs is the rare part of an edge.
type needFuncs struct {
	need      conditions
	uses      *Node // that an operation of the owner under way counts on
	projected string
	projKnown bool
	broken    string // how Pass panicked, if it did
}

// Prefix returns the prefix of an any-of need, "" for a need of one key.
func (e *Edge) Prefix() Key {
	if e.any == nil {
		return ""
	}
	return e.any.prefix
}

// Target names what is needed: the key, or the prefix with a star.
func (e *Edge) Target() string {
	if e.any != nil {
		return string(e.any.prefix) + "*"
	}
	return string(e.To.Key)
}

// OfDesired and OfActual tell which value of the node has the need.
func (e *Edge) OfDesired() bool { return e.role&ofDesired != 0 }

// Together reports whether the need is met as one with its owner's.
func (e *Edge) Together() bool { return e.is(together) }

// OfBase marks the need of a derived value for its base.
func (e *Edge) OfBase() bool { return e.is(ofBase) }

// OfActual reports whether the actual value has the need.
func (e *Edge) OfActual() bool { return e.role&ofActual != 0 }

// passes reports whether the edge's predicate accepts the node as it is.
func (e *Edge) passes(t *Node) bool { return e.fn == nil || e.fn.pass(t, t.Actual) }

// WouldPass reports whether the edge's predicate accepts the node with its desired value.
func (e *Edge) WouldPass(t *Node) bool { return e.fn == nil || e.fn.pass(t, t.Desired) }

// Tell says why the node that the edge points to is there and does not pass, ""
// if nothing is known.
func (e *Edge) Tell() string {
	if e.fn == nil || e.To == nil || e.To.Presence != Present {
		return ""
	}
	return e.fn.tell(e.To)
}

// Agree asks the together need whether it agrees with the peer's value.
func (e *Edge) Agree(v any) error {
	if e.fn == nil || e.fn.need.Agree == nil {
		return nil
	}
	return e.fn.agree(v)
}
