package assess

import (
	"hash/maphash"
	"math"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Assessor says of a node all that follows from the graph and from what surrounds it.
type Assessor struct {
	G        *graph.Graph
	Kinds    *kind.Registry
	Policies kv.Policies
	Pauses   map[kv.Key]Pause
	// HeldBack is by key, so that it outlasts a kind that is registered anew.
	HeldBack map[kv.Key]*HeldBack
	// Shadow is why nothing at all may be done, empty if something may.
	Shadow string
	// Judged: the leftovers of earlier runs were judged as a whole, see engine.HoldBack.
	Judged bool
	seed   maphash.Seed // of digests of secrets

	Sources      []source
	Synced       int  // how many sources have sent a complete snapshot
	GraceExpired bool // Options.Grace is over

	Looks       []*kind.Kind         // kinds with nodes waiting to be read
	Reading     int                  // looks under way
	UnreadNodes map[*graph.Node]bool // that no read has told of yet, though their kind was read

	Mark    uint32        // of the pass over the graph, see NewPass
	path    []pathStep    // from a node to what it waits for
	circled bool          // the path has met itself
	unsure  []*graph.Node // settled if those are that it met
}

// New makes an assessor of an empty graph.
func New(policies kv.Policies, sources []string) *Assessor {
	as := &Assessor{Kinds: kind.NewRegistry(), Policies: policies, Pauses: map[kv.Key]Pause{}, UnreadNodes: map[*graph.Node]bool{}, Mark: firstMark, seed: maphash.MakeSeed()}
	as.G = graph.New(as.Kinds.GraphKind)
	for _, name := range sources {
		as.Sources = append(as.Sources, source{Name: name})
	}
	return as
}

type source struct {
	Name   string
	Synced bool
}

// Flags of graph.Node.Flags.
const (
	FlagSame       uint16 = 1 << iota // Actual is what Desired asks for
	FlagWithdrawn                     // a source explicitly took its wish back
	FlagNeedsRead                     // read it before acting on it
	FlagStale                         // built with something that has changed: replace
	FlagTouched                       // in Engine.Touched
	FlagChildless                     // its derived values are withdrawn
	FlagInterested                    // the kind was told that it is needed
	FlagDrifted                       // was as wanted and is no longer, by no act of ours
	FlagLookAgain                     // something was heard while an operation ran
	FlagDerive                        // its derived values must be worked out anew
	FlagAdopted                       // found, not made by this process
	FlagDue                           // in one of the engine's lists of what is due
	FlagUntried                       // what is desired was never in place, as far as is known
	FlagAwaitsTurn                    // it is to go, and waits for its turn in the budget of its kind
	FlagHasTurn                       // it has had its turn, and has not gone yet
	FlagByOwner                       // its owner has taken it back and says that nothing uses it
)

// Has reports whether a node has a flag.
func Has(n *graph.Node, flag uint16) bool { return n.Flags&flag != 0 }

// firstMark is close to the end, so that no test misses what happens there.
const firstMark = math.MaxUint32 - 1000

// NewPass begins a pass that marks nodes with Mark. Marks are small, for
// there are many, and begin anew after a billion passes.
func (as *Assessor) NewPass() {
	if as.Mark += MarksOfPass; as.Mark > math.MaxUint32-MarksOfPass {
		as.G.All(func(n *graph.Node) bool { n.Mark = 0; return true })
		as.Mark = 1
	}
}

// SourceIndex is the number of a source, -1 for one that there is not. What it reads never
// changes, so anybody may ask.
func (as *Assessor) SourceIndex(name string) int8 {
	for i := range as.Sources {
		if as.Sources[i].Name == name {
			return int8(i)
		}
	}
	return -1
}
