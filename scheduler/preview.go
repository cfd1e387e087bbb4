package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// Plan is what would be done: steps with their order and reasons.
type Plan struct {
	// Base digests the state of every key that the plan is built on.
	Base  string
	Steps []Step
	// Pending are the touched keys that would not be configured at the end.
	Pending []Status
}

// Step is one operation of a plan.
type Step struct {
	N      int // from 1
	Op     Operation
	Key    Key
	Reason string
	// After are the steps that must be done before.
	After      []int
	Disruption Disruption
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
	var p Plan
	var failed error
	err := s.call(func(e *engine) {
		if failed = e.checkTxn(t); failed == nil {
			p = e.preview(t)
		}
	})
	if err == nil {
		err = failed
	}
	return p, err
}

// simulation stands in for the lanes while a preview is computed: every
// operation succeeds at once and becomes a step.
type simulation struct {
	plan Plan
	last map[*graph.Node]int   // the newest step of each node
	left map[*graph.Node][]int // the deletions of what stood on each node
	base map[*graph.Node]version
	done []*op
}

type version struct {
	gen      uint32
	stamp    uint64
	presence graph.Presence
}

func (e *engine) preview(t Txn) Plan {
	sim := &simulation{last: map[*graph.Node]int{}, left: map[*graph.Node][]int{}, base: map[*graph.Node]version{}}
	e.g.Try(func() {
		e.sim = sim
		touched := e.edit(t)
		for {
			e.think()
			if len(sim.done) == 0 {
				break
			}
			o := sim.done[0]
			sim.done = sim.done[1:]
			e.under(o.cause, o.n, func() { e.succeeded(o.n, o) })
			e.g.Wake(o.n)
		}
		for _, n := range touched {
			if s := e.status(n); s.State != Configured && s.State != Removed && s.State != Absent && s.State != Observed {
				sim.plan.Pending = append(sim.plan.Pending, s)
			}
		}
		e.sim = nil
	})
	e.g.AfterTry(func(n *graph.Node) {
		sim.base[n] = version{n.Gen, n.Stamp, n.Presence}
	})
	sim.plan.Base = digest(sim.base, sim.plan.String())
	return sim.plan
}

// digest sums up a plan, which keys it was computed on, and how they stood.
func digest(base map[*graph.Node]version, plan string) string {
	lines := make([]string, 0, len(base))
	for n, v := range base {
		lines = append(lines, fmt.Sprintf("%s %d %d %d\n", n.Key, v.gen, v.stamp, v.presence))
	}
	slices.Sort(lines)
	h := sha256.New()
	h.Write([]byte(plan))
	for _, l := range lines {
		h.Write([]byte(l))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// step records an operation and lets it be under way until its turn.
func (sim *simulation) step(e *engine, o *op, d decision) {
	n := o.n
	s := Step{N: len(sim.plan.Steps) + 1, Op: o.what, Key: o.key, Reason: d.reason, After: sim.after(e, n, o)}
	if d.replace {
		s.Reason = "replaced: " + d.reason
	}
	if o.kind.disruption != nil {
		s.Disruption = o.kind.disruption(o.key, o.from, o.to)
	} else if o.what == OpDelete {
		s.Disruption = Disruptive
	}
	sim.plan.Steps = append(sim.plan.Steps, s)
	e.g.SetMoving(n, true, d.do != doDelete)
	sim.last[n] = s.N
	if o.what == OpDelete {
		for _, edge := range n.Out {
			if edge.OfActual() && !edge.Together && edge.To != nil {
				sim.left[edge.To] = append(sim.left[edge.To], s.N)
			}
		}
	}
	sim.done = append(sim.done, o)
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
		out = append(out, sim.left[n]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
