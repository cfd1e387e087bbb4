package scheduler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/history"
)

// planner works out what would be done, on the very graph that execution uses.
type planner struct {
	e *engine
	x *explainer
}

// supposition is something that may happen, to what is wanted or to the world.
type supposition struct {
	source   int8
	want     []Change
	complete bool
	retries  *Retries
	vanish   []Key    // keys that go from the world; one that ends in a slash is all below it
	unread   []string // kinds that cannot be read any more
}

// preview works out what may happen, one after another, and takes all of it back.
func (p *planner) preview(all []supposition) (*simulation, error) {
	e := p.e
	e.beginAll()
	sim := &simulation{e: e, x: p.x, mark: e.mark + marksOfPass - 1}
	var failed error
	var blinded []func()
	out, looks, reading, hist := e.out, e.looks, e.reading, e.hist
	e.looks, e.reading = nil, 0 // what is read now is taken to be as it is believed to be
	e.out, e.hist = sim, history.None()
	e.g.Try(func() {
		var touched []*graph.Node
		for _, v := range all {
			var nodes []*graph.Node
			// As of a transaction of its own, so that what it wakes says why.
			e.under(e.seq+1, nil, func() { nodes, failed = p.suppose(v, &blinded) })
			if failed != nil {
				break
			}
			touched = append(touched, nodes...)
			sim.run()
		}
		for _, n := range touched {
			if s := p.x.stateOf(n); s != Configured && s != Removed && s != Absent && s != Observed {
				sim.plan.Pending = append(sim.plan.Pending, p.x.status(n))
			}
		}
		sim.ends()
	})
	e.out, e.looks, e.reading, e.hist = out, looks, reading, hist
	for _, see := range blinded {
		see()
	}
	sim.plan.Effects = sim.effects()
	sim.plan.Base = sim.base()
	return sim, failed
}

// suppose lets it happen. It returns the nodes that it names.
func (p *planner) suppose(v supposition, blinded *[]func()) (touched []*graph.Node, err error) {
	e := p.e
	for _, name := range v.unread {
		see, err := p.blind(name)
		if err != nil {
			return nil, err
		}
		*blinded = append(*blinded, see)
	}
	for _, key := range v.vanish {
		nodes := e.nodesUnder([]Key{key})
		nodes = slices.DeleteFunc(nodes, func(n *graph.Node) bool { return n.Presence != graph.Present })
		if len(nodes) == 0 {
			return nil, fmt.Errorf("%s is not in the world, so it cannot vanish: %w", key, ErrUnknownKey)
		}
		p.vanish(nodes)
		touched = append(touched, nodes...)
	}
	if len(v.want) > 0 || v.complete {
		touched = append(touched, e.edit(v.source, v.want, v.complete, v.retries)...)
	}
	return touched, nil
}

// vanish takes nodes out of the world, and what stands on them along.
func (p *planner) vanish(nodes []*graph.Node) {
	e := p.e
	nodes = slices.Clone(nodes)
	seen := map[*graph.Node]bool{}
	for i := 0; i < len(nodes); i++ {
		n := nodes[i]
		if seen[n] || n.Presence != graph.Present {
			continue
		}
		seen[n] = true
		nodes = append(nodes, goesWith(n)...)
		e.seenGone(n)
		e.setFlag(n, flagSuspect, false)
		e.g.Wake(n)
	}
	for n := range seen {
		e.setFlag(n, flagSuspect, false) // by what it stood on
	}
}

// goesWith is what stands on n, and its peers.
func goesWith(n *graph.Node) (out []*graph.Node) {
	n.Standers(func(d *graph.Node) bool { out = append(out, d); return true })
	for _, edge := range n.In {
		if edge.Together() && edge.OfActual() {
			out = append(out, edge.From)
		}
	}
	return out
}

// blind makes a kind one that cannot be read; see takes that back.
func (p *planner) blind(name string) (see func(), err error) {
	e := p.e
	for _, k := range e.kinds.all() {
		if k.Name != name {
			continue
		}
		if k.retrieve == nil {
			return nil, fmt.Errorf("the world of %s is never read", name)
		}
		blind, because := k.Blind, k.look.err
		k.look.err = errors.New("it cannot be read")
		k.Blind = math.MaxUint64
		e.g.KindChanged(k.Prefix)
		return func() { k.Blind, k.look.err = blind, because }, nil
	}
	return nil, fmt.Errorf("no kind is called %q, known are %s", name, strings.Join(e.kinds.names(), ", "))
}
