package scheduler

import (
	"hash/maphash"
	"math"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// assessor says of a node all that follows from the graph and from what surrounds it. It
// changes nothing but marks of a pass.
type assessor struct {
	g        *graph.Graph
	kinds    *kinds
	policies kv.Policies
	pauses   map[Key]pause
	seed     maphash.Seed // of digests of secrets

	sources   []sourceState
	spoken    int  // how many sources have said a complete word
	graceless bool // Options.Grace is over

	looks   []*kind              // kinds with nodes waiting to be read
	reading int                  // looks under way
	unseen  map[*graph.Node]bool // that no read has told of yet, though their kind was read

	mark    uint32        // of the pass over the graph, see newPass
	trail   []visit       // from a node to what it waits for
	circled bool          // the trail has met itself
	unsure  []*graph.Node // settled if those are that it met
}

func newAssessor(policies kv.Policies, sources []string) *assessor {
	as := &assessor{kinds: newKinds(), policies: policies, pauses: map[Key]pause{}, unseen: map[*graph.Node]bool{}, mark: firstMark, seed: maphash.MakeSeed()}
	as.g = graph.New(as.kinds.graphKind)
	for _, name := range sources {
		as.sources = append(as.sources, sourceState{name: name})
	}
	return as
}

type sourceState struct {
	name   string
	spoken bool
}

// Flags of graph.Node.Flags.
const (
	flagSame       uint16 = 1 << iota // Actual is what Desired asks for
	flagWithdrawn                     // a source explicitly took its wish back
	flagSuspect                       // read it before acting on it
	flagStale                         // built with something that has changed: replace
	flagHeld                          // waits for its next try, or for a change
	flagTouched                       // in engine.touched
	flagLookQueued                    // in the kind's list of nodes to read
	flagChildless                     // its derived values are withdrawn
	flagInterested                    // the kind was told that it is needed
	flagDrifted                       // was as wanted and is no longer, by no act of ours
	flagLookAgain                     // something was heard while an operation ran
	flagDerive                        // its derived values must be worked out anew
	flagAdopted                       // found in the world, not made by this process
	flagRunning                       // an operation (not a look) is under way
	flagDue                           // in engine.making or engine.going
	flagUntried                       // what is desired was never in the world, as far as is known
)

func has(n *graph.Node, flag uint16) bool { return n.Flags&flag != 0 }

// firstMark is close to the end, so that no test misses what happens there.
const firstMark = math.MaxUint32 - 1000

// newPass begins a pass that marks nodes with the engine's mark. Marks are small, for
// there are many, and begin anew after a billion passes.
func (as *assessor) newPass() {
	if as.mark += marksOfPass; as.mark > math.MaxUint32-marksOfPass {
		as.g.All(func(n *graph.Node) bool { n.Mark = 0; return true })
		as.mark = 1
	}
}

// sourceIndex is the number of a source, -1 for one that there is not. What it reads never
// changes, so anybody may ask.
func (as *assessor) sourceIndex(name string) int8 {
	for i := range as.sources {
		if as.sources[i].name == name {
			return int8(i)
		}
	}
	return -1
}
