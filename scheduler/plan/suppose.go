package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/explain"
	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Planner works out what would be done, on the very graph that execution uses.
type Planner struct {
	e *engine.Engine
	x *explain.Explainer
}

// NewPlanner makes a planner that uses the engine's graph.
func NewPlanner(e *engine.Engine, x *explain.Explainer) *Planner { return &Planner{e, x} }

// Supposition is something that may happen, to what is wanted or to what is there.
type Supposition struct {
	Source   int8
	Want     []kv.Change
	Complete bool
	ByOwner  bool
	Retries  *kv.Retries
	Vanish   []kv.Key // keys that disappear; one that ends in a slash is all below it
	Unread   []string // kinds that cannot be read any more
}

// ErrHalted is returned by Preview when its halt ended it.
var ErrHalted = errors.New("the preview was ended")

// Preview works out what may happen, one after another, and takes all of it back. halt is
// asked before each step of the work with the number of changes so far; if it returns true
// all is taken back and the error is ErrHalted.
func (p *Planner) Preview(all []Supposition, halt func(changes int) bool) (*Simulation, error) {
	e := p.e
	e.BeginAll()
	halted := false
	sim := &Simulation{e: e, x: p.x, halted: func() bool {
		halted = halted || halt(e.G.Changes())
		return halted
	}, mark: e.Mark + assess.MarksOfPass - 1}
	var failed error
	var blinded []func()
	out, looks, reading, hist := e.Out, e.Looks, e.Reading, e.Hist
	e.Looks, e.Reading = nil, 0 // what is read now is taken to be as it is believed to be
	e.Out, e.Hist = sim, history.None()
	work := func() {
		var touched []*graph.Node
		for _, v := range all {
			var nodes []*graph.Node
			// As of a transaction of its own, so that what it wakes says why.
			e.CausedBy(e.Seq+1, nil, func() { nodes, failed = p.suppose(v, &blinded, sim.halted) })
			if failed != nil || halted {
				return
			}
			touched = append(touched, nodes...)
			if _, held := e.TooMany(nodes); held != "" {
				sim.Plan.Held = held
			}
			sim.run()
		}
		for _, n := range touched {
			if sim.halted() {
				return
			}
			if s := p.x.StateOf(n); s != kv.Configured && s != kv.Removed && s != kv.Absent && s != kv.Observed {
				sim.Plan.Pending = append(sim.Plan.Pending, p.x.Status(n))
			}
		}
		sim.ends()
	}
	e.G.Try(func() { e.Halting(sim.halted, work) })
	e.Out, e.Looks, e.Reading, e.Hist = out, looks, reading, hist
	for _, see := range blinded {
		see()
	}
	if failed == nil && !halted {
		sim.Plan.Effects = sim.effects()
		sim.Plan.Base.reads = sim.reads()
	}
	if failed == nil && halted {
		failed = ErrHalted
	}
	return sim, failed
}

// suppose lets it happen. It returns the nodes that it names.
func (p *Planner) suppose(v Supposition, blinded *[]func(), halted func() bool) (touched []*graph.Node, err error) {
	e := p.e
	for _, name := range v.Unread {
		see, err := p.blind(name)
		if err != nil {
			return nil, err
		}
		*blinded = append(*blinded, see)
	}
	for _, key := range v.Vanish {
		nodes := e.NodesUnder([]kv.Key{key})
		nodes = slices.DeleteFunc(nodes, func(n *graph.Node) bool { return n.Presence != graph.Present })
		if len(nodes) == 0 {
			return nil, fmt.Errorf("%s does not exist, so it cannot vanish: %w", key, kv.ErrUnknownKey)
		}
		p.vanish(nodes, halted)
		touched = append(touched, nodes...)
	}
	if len(v.Want) > 0 || v.Complete {
		touched = append(touched, e.Edit(v.Source, v.Want, v.Complete, v.ByOwner, v.Retries)...)
	}
	return touched, nil
}

// vanish makes nodes absent, and what depends on them along.
func (p *Planner) vanish(nodes []*graph.Node, halted func() bool) {
	e := p.e
	nodes = slices.Clone(nodes)
	seen := map[*graph.Node]bool{}
	for i := 0; i < len(nodes) && !halted(); i++ {
		n := nodes[i]
		if seen[n] || n.Presence != graph.Present {
			continue
		}
		seen[n] = true
		nodes = append(nodes, goesWith(n)...)
		e.SeenGone(n)
		e.SetFlag(n, assess.FlagNeedsRead, false)
		e.G.Wake(n)
	}
	for n := range seen {
		e.SetFlag(n, assess.FlagNeedsRead, false) // by what it depended on
	}
}

// goesWith is what depends on n, and its peers.
func goesWith(n *graph.Node) (out []*graph.Node) {
	n.EachDependent(func(d *graph.Node) bool { out = append(out, d); return true })
	for _, edge := range n.In {
		if edge.Together() && edge.OfActual() {
			out = append(out, edge.From)
		}
	}
	return out
}

// blind makes a kind one that cannot be read; see takes that back.
func (p *Planner) blind(name string) (see func(), err error) {
	e := p.e
	for _, k := range e.Kinds.All() {
		if k.Name != name {
			continue
		}
		if k.Retrieve == nil {
			return nil, fmt.Errorf("kind %s is never read", name)
		}
		blind, because := k.Blind, k.Look.Err
		k.Look.Err = errors.New("it cannot be read")
		k.Blind = math.MaxUint64
		e.G.KindChanged(k.Prefix)
		return func() { k.Blind, k.Look.Err = blind, because }, nil
	}
	return nil, fmt.Errorf("no kind is called %q, known are %s", name, strings.Join(e.Kinds.Names(), ", "))
}
