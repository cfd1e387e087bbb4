package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/history"
)

// Event is something that may happen, to what is wanted or to the world.
type Event struct {
	// Txn changes what is wanted. Of a look nothing new is expected.
	Txn Txn
	// Vanish are keys that go from the world, a container that dies or a link
	// that somebody removes. What stands on them goes with them. A key that
	// ends in "/" stands for all below it.
	Vanish []Key
	// Unread are kinds, by name, whose world cannot be read any more.
	Unread []string
}

// WhatIf computes what would be done, and how things would stand, if all that
// happened, one after another; each is worked out before the next. Nothing is
// touched. The cost is that of the changes, not of all that there is.
//
// The error is ErrUnknownSource, ErrUnknownKey for what cannot vanish since it is
// not in the world, or ErrStopped; or it tells of a key that names nothing, or of
// a kind that there is not or that is never read. There is no plan then. ctx is
// not looked at.
func (s *Scheduler) WhatIf(ctx context.Context, events ...Event) (Plan, error) {
	var p Plan
	var failed error
	err := s.call(func(e *engine) {
		var sim *simulation
		if sim, failed = e.preview(events...); failed == nil {
			p = sim.plan
		}
	})
	if err == nil {
		err = failed
	}
	return p, err
}

// preview works out events on the graph and takes all of it back.
func (e *engine) preview(events ...Event) (*simulation, error) {
	for _, v := range events {
		if err := e.checkTxn(v.Txn); err != nil {
			return nil, err
		}
	}
	e.beginAll()
	e.inFull = true
	defer func() { e.inFull = false }()
	sim := &simulation{e: e, mark: e.mark + marksOfPass - 1}
	var failed error
	var blinded []func()
	looks, reading, hist := e.looks, e.reading, e.hist
	e.looks, e.reading = nil, 0 // what is read now is taken to be as it is believed to be
	e.out, e.hist = sim, history.None()
	e.g.Try(func() {
		var touched []*graph.Node
		for _, v := range events {
			var nodes []*graph.Node
			// As of a transaction of its own, so that what it wakes says why.
			e.under(e.seq+1, nil, func() { nodes, failed = e.suppose(v, &blinded) })
			if failed != nil {
				break
			}
			touched = append(touched, nodes...)
			sim.run(e)
		}
		for _, n := range touched {
			if s := e.stateOf(n); s != Configured && s != Removed && s != Absent && s != Observed {
				sim.plan.Pending = append(sim.plan.Pending, e.status(n))
			}
		}
		sim.ends(e)
	})
	e.out, e.looks, e.reading, e.hist = e, looks, reading, hist
	for _, see := range blinded {
		see()
	}
	sim.plan.Effects = sim.effects(e)
	sim.plan.Base = sim.base(e)
	return sim, failed
}

// suppose lets an event happen. It returns the nodes that it names.
func (e *engine) suppose(v Event, blinded *[]func()) (touched []*graph.Node, err error) {
	for _, name := range v.Unread {
		see, err := e.blind(name)
		if err != nil {
			return nil, err
		}
		*blinded = append(*blinded, see)
	}
	for _, key := range v.Vanish {
		nodes := e.nodesUnder([]Key{key})
		nodes = slices.DeleteFunc(nodes, func(n *graph.Node) bool { return n.Presence != graph.Present })
		if len(nodes) == 0 {
			return nil, fmt.Errorf("%s is not in the world, so it cannot vanish: %w", key, ErrUnknownKey)
		}
		e.vanish(nodes)
		touched = append(touched, nodes...)
	}
	if len(v.Txn.Want) > 0 || v.Txn.Complete {
		touched = append(touched, e.edit(v.Txn)...)
	}
	return touched, nil
}

// vanish takes nodes out of the world, and what stands on them along.
func (e *engine) vanish(nodes []*graph.Node) {
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
func (e *engine) blind(name string) (see func(), err error) {
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

func (ks *kinds) names() []string {
	out := make([]string, len(ks.sorted))
	for i, k := range ks.sorted {
		out[i] = k.Name
	}
	return out
}
