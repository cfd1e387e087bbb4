package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// Plan is what would be done, and what would come of it.
type Plan struct {
	// Base says what the plan was made on; see [Txn.Base].
	Base  Base
	Steps []Step
	// Pending are the touched keys that would not be configured at the end.
	Pending []Status
	// Effects are all keys that would stand otherwise at the end, sorted.
	Effects []Effect
}

// Step is one operation of a plan.
type Step struct {
	N      int // from 1
	Op     Operation
	Key    Key
	Reason string
	// Cause is the key whose change made the step due, empty if it was asked.
	Cause Key
	// After are the steps that must be done before.
	After []int
	// Disruption is what the step does to traffic; Cascading if others must go
	// because of it.
	Disruption Disruption
}

// Effect is how a key would stand at the end, and stands now.
type Effect struct {
	Key        Key
	Was, State State
	Reason     string
	Missing    []Missing
}

// Breaks tells whether the key is in order now and would not be so.
func (f Effect) Breaks() bool {
	return (f.Was == Configured || f.Was == Observed) && f.State != Configured && f.State != Observed && f.State != Removed
}

// String shows the plan as text, the way the command line and tests do.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%d %s %s", s.N, s.Op.sign(), s.Key)
		if len(s.After) > 0 {
			fmt.Fprintf(&b, " after %s", strings.Trim(fmt.Sprint(s.After), "[]"))
		}
		fmt.Fprintf(&b, " (%s)\n", s.Reason)
	}
	for _, s := range p.Pending {
		fmt.Fprintf(&b, ". %s %s: %s\n", s.Key, s.State, s.Reason)
	}
	return b.String()
}

// Preview computes what Apply would do, by the same code on the same graph,
// and takes it all back. It assumes that operations succeed.
func (s *Scheduler) Preview(ctx context.Context, t Txn) (Plan, error) {
	return s.WhatIf(ctx, Event{Txn: t})
}

// simulation stands in for the lanes while a preview is computed: every
// operation succeeds at once and becomes a step.
type simulation struct {
	plan Plan
	gens []uint32                // of the node at each step
	last map[*graph.Node]int     // the newest step of each node
	left map[*graph.Node][]going // the deletions of what stood on each node
	done []*op
	head int
	mark uint64 // nodes with a higher one were asked for
}

// going is a deletion; forced if the value is wanted all the same.
type going struct {
	step   int
	forced bool
}

// run works a change out to its end.
func (sim *simulation) run(e *engine) {
	for {
		e.think()
		if sim.head == len(sim.done) {
			return
		}
		o := sim.done[sim.head]
		sim.head++
		e.under(o.cause, o.n, func() { e.succeeded(o.n, o) })
		e.g.Wake(o.n)
	}
}

// step records an operation and lets it be under way until its turn.
func (sim *simulation) step(e *engine, o *op, d decision) {
	n := o.n
	s := Step{N: len(sim.plan.Steps) + 1, Op: o.what, Key: o.key, Reason: d.reason, Cause: sim.cause(o), After: sim.after(e, n, o)}
	if d.replace {
		s.Reason = "replaced: " + d.reason
	}
	s.Disruption = sim.disruption(e, o)
	sim.plan.Steps = append(sim.plan.Steps, s)
	sim.gens = append(sim.gens, o.gen)
	if o.what == OpDelete {
		sim.leaves(n, going{s.N, n.Goal() != nil && (!d.replace || has(n, flagStale))})
	}
	e.g.SetMoving(n, true, d.do != doDelete)
	if sim.last == nil {
		sim.last = map[*graph.Node]int{}
	}
	sim.last[n] = s.N
	sim.done = append(sim.done, o)
}

// cause finds the key whose change made an operation due: what is missing, what
// it is part of, or what came last of all that it needs.
func (sim *simulation) cause(o *op) (key Key) {
	n := o.n
	if n.Mark > sim.mark {
		return "" // it was asked
	}
	if n.Goal() == nil && n.Base != nil {
		return n.Base.Key
	}
	latest := 0
	for _, edge := range n.Out {
		if !edge.OfDesired() || edge.To == nil {
			continue
		}
		if edge.State == graph.Missing && o.what == OpDelete {
			return edge.To.Key
		}
		if s := sim.last[edge.To]; s > latest {
			latest, key = s, edge.To.Key
		}
	}
	if latest == 0 && o.via != nil {
		return o.via.Key
	}
	return key
}

func (sim *simulation) disruption(e *engine, o *op) (class Disruption) {
	switch {
	case o.what == OpDelete && slices.ContainsFunc(sim.left[o.n], func(g going) bool { return g.forced }):
		return Cascading
	case o.kind.disruption != nil:
		e.guard(o.n, func() { class = o.kind.disruption(o.key, o.from, o.to) })
	case o.what == OpDelete:
		class = Disruptive
	}
	return class
}

// leaves notes what n no longer stands on. An update that forced it to go
// cascades.
func (sim *simulation) leaves(n *graph.Node, g going) {
	for _, edge := range n.Out {
		if edge.OfActual() && !edge.Together && edge.To != nil {
			if sim.left == nil {
				sim.left = map[*graph.Node][]going{}
			}
			sim.left[edge.To] = append(sim.left[edge.To], g)
		}
	}
	if by := n.Via; g.forced && by != nil && !by.Leaving && sim.last[by] > 0 {
		if s := &sim.plan.Steps[sim.last[by]-1]; s.Op == OpUpdate {
			s.Disruption = Cascading
		}
	}
}

// replaceable tells whether another key may satisfy the need as well: then
// nobody can say which will be the first.
func (e *engine) replaceable(edge *graph.Edge) bool {
	if edge.Prefix() == "" {
		return false
	}
	return !e.g.Below(edge.Prefix(), func(m *graph.Node) bool {
		return m == edge.To || m == edge.From || m.Presence != graph.Present && m.Goal() == nil
	})
}

// after finds the steps that had to come before an operation on n: the last
// one on itself, on what it needs, and on what stood on it.
func (sim *simulation) after(e *engine, n *graph.Node, o *op) []int {
	var out []int
	add := func(m *graph.Node) {
		if m == nil {
			return
		}
		if s := sim.last[m]; s > 0 {
			out = append(out, s)
		}
	}
	add(n)
	for _, edge := range n.Out {
		if o.what != OpDelete && edge.OfDesired() && !edge.Together && !e.replaceable(edge) {
			add(edge.To)
		}
	}
	if o.what == OpDelete {
		for _, g := range sim.left[n] {
			out = append(out, g.step)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// base sums up what the plan was made on: all that it changed and took back,
// and what that needs.
func (sim *simulation) base(e *engine) Base {
	var b Base
	h := sumOffset
	for i := range sim.plan.Steps {
		s := &sim.plan.Steps[i]
		h = h.text(string(s.Key)).num(uint64(s.Op))
		for _, a := range s.After {
			h = h.num(uint64(a))
		}
	}
	b.steps = max(uint64(h), 1)
	e.g.Tried(func(n *graph.Node) {
		if n.Dropped() {
			b.reads = append(b.reads, read{key: n.Key})
			return
		}
		b.reads = append(b.reads, readOf(n))
		for _, edge := range n.Out {
			if edge.To != nil && edge.OfDesired() {
				b.reads = append(b.reads, readOf(edge.To))
			}
		}
	})
	slices.SortFunc(b.reads, func(x, y read) int { return strings.Compare(string(x.key), string(y.key)) })
	b.reads = slices.CompactFunc(b.reads, func(x, y read) bool { return x.key == y.key })
	return b
}

// effects are the keys that stand otherwise than they did.
func (e *engine) effects() (out []Effect) {
	var seen map[*graph.Node]bool
	add := func(n *graph.Node) {
		was, now := State(n.State), e.stateOf(n)
		if was == now || was == Absent && now == Removed || was == Removed && now == Absent || seen[n] {
			return
		}
		if seen == nil {
			seen = map[*graph.Node]bool{}
		}
		seen[n] = true
		s := e.status(n)
		out = append(out, Effect{Key: n.Key, Was: was, State: now, Reason: s.Reason, Missing: s.Missing})
	}
	e.g.Tried(func(n *graph.Node) {
		for ; n != nil; n = n.Base {
			add(n) // a base is configured only when what it derives is
		}
	})
	slices.SortFunc(out, func(a, b Effect) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return out
}
