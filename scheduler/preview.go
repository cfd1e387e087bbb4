package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// Breaks reports whether the key is in order now and would not be so.
func (f Effect) Breaks() bool {
	return (f.Was == Configured || f.Was == Observed) && f.State != Configured && f.State != Observed && f.State != Removed
}

// String shows the plan as text, the way the command line and tests do.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%d %s %s", s.N, s.Op.Sign(), s.Key)
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

// simulation is the outside while a preview is computed: every operation succeeds at
// once and becomes a step.
type simulation struct {
	nobody
	e     *engine
	x     *explainer
	plan  Plan
	to    []any                 // what each step brings about, nil for deletions
	since []int                 // how many outcomes were taken in when each step began
	last  map[*graph.Node]int   // the newest step of each node
	used  map[*graph.Node][]use // the steps of what stands, or stood, on each node
	done  []*op
	head  int
	mark  uint32 // nodes with a higher one were asked for
	end   []ending

	// What the newest step adds to last and used, once there is another.
	newest use
	under  []*graph.Node
}

// nobody hears what a preview has to say besides its operations.
type nobody struct{}

func (nobody) full() bool                      { return true }
func (nobody) queueLook(*graph.Node)           {}
func (nobody) afterRead(*kind, *graph.Node)    {}
func (nobody) mayHaveGone(*graph.Node)         {}
func (nobody) moved(*graph.Node)               {}
func (nobody) tellInterest(*graph.Node, *kind) {}
func (nobody) flapped(*graph.Node)             {}
func (nobody) calmDown(*graph.Node)            {}
func (nobody) unblock(*graph.Node)             {}
func (nobody) unwait(*graph.Node)              {}
func (nobody) speak(int8)                      {}
func (nobody) retryAt(*graph.Node, time.Time)  {}

// ending is how a node stands at the end.
type ending struct {
	n      *graph.Node
	effect Effect
}

// use is a step of what stands on a node; forced if it is the deletion of a
// value that is wanted all the same.
type use struct {
	step   int
	forced bool
}

// run works a change out to its end.
func (sim *simulation) run() {
	e := sim.e
	for {
		e.think()
		if sim.head == len(sim.done) {
			return
		}
		o := sim.done[sim.head]
		sim.head++
		e.g.Unuse(o.n)
		e.under(o.cause, o.n, func() { e.succeeded(o.n, o) })
		e.g.Wake(o.n)
	}
}

// begin records an operation and lets it be under way until its turn.
func (sim *simulation) begin(o *op, a assessment) {
	e, n := sim.e, o.n
	sim.file()
	s := Step{N: len(sim.plan.Steps) + 1, Op: o.what, Key: o.key, Reason: a.reason, Cause: sim.cause(o), After: sim.after(n, o)}
	if a.replace {
		s.Reason = "replaced: " + a.reason
	}
	s.Disruption = sim.disruption(o)
	delete(sim.used, n) // they are before this step, which the next on n is after
	sim.plan.Steps = append(sim.plan.Steps, s)
	sim.to = append(sim.to, o.to)
	sim.since = append(sim.since, sim.head)
	sim.uses(n, use{s.N, o.what == OpDelete && n.Goal() != nil && (!a.replace || has(n, flagStale))})
	e.g.SetMoving(n, true, a.due != doDelete)
	sim.done = append(sim.done, o)
}

// file takes the newest step into the maps. Most plans have one step, which
// needs none.
func (sim *simulation) file() {
	n := len(sim.done)
	if n == 0 {
		return
	}
	if sim.last == nil {
		sim.last, sim.used = map[*graph.Node]int{}, map[*graph.Node][]use{}
	}
	sim.last[sim.done[n-1].n] = n
	for _, m := range sim.under {
		sim.used[m] = append(sim.used[m], sim.newest)
	}
	sim.under = sim.under[:0]
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

func (sim *simulation) disruption(o *op) (class Disruption) {
	switch {
	case o.what != OpCreate && slices.ContainsFunc(sim.used[o.n], func(u use) bool { return u.forced }):
		return Cascading
	case o.kind.disruption != nil:
		sim.e.guard(o.n, func() { class = o.kind.disruption(o.key, o.from, o.to) })
	case o.what == OpDelete:
		class = Disruptive
	}
	return class
}

// uses notes on what the step, and what it ends or brings, stands. An update
// that forced n to go cascades.
func (sim *simulation) uses(n *graph.Node, u use) {
	for _, edge := range n.Out {
		if edge.To == nil || edge.Together() {
			continue
		}
		sim.under = append(sim.under, edge.To)
	}
	sim.newest = u
	if by := n.Via; u.forced && by != nil && !by.Leaving && sim.last[by] > 0 {
		if s := &sim.plan.Steps[sim.last[by]-1]; s.Op == OpUpdate {
			s.Disruption = Cascading
		}
	}
}

// after finds the steps that had to come before an operation on n: the last one
// on itself and on what it needs, and those of what stands on it.
func (sim *simulation) after(n *graph.Node, o *op) (out []int) {
	add := func(m *graph.Node) {
		if s := sim.last[m]; s > 0 {
			out = append(out, s)
		}
	}
	add(n)
	for _, edge := range n.Out {
		if o.what != OpDelete && edge.OfDesired() && !edge.Together() && edge.To != nil {
			add(edge.To)
		}
	}
	for _, u := range sim.used[n] {
		out = append(out, u.step)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// base sums up what the plan was made on: all that it changed and took back,
// and what that needs.
func (sim *simulation) base() Base {
	e := sim.e
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
	b.reads = make([]read, 0, 2*len(sim.end))
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

// ends notes how every node that was changed stands at the end, with its base,
// which is configured only when all that it derives is.
func (sim *simulation) ends() {
	e := sim.x
	e.g.Tried(func(n *graph.Node) {
		for ; n != nil; n = n.Base {
			f := Effect{Key: n.Key, State: e.stateOf(n)}
			if f.State != Configured && f.State != Absent && f.State != Removed {
				s := e.status(n)
				f.Reason, f.Missing = s.Reason, s.Missing
			}
			sim.end = append(sim.end, ending{n, f})
		}
	})
}

// effects are the ends that differ from how things stand again now.
func (sim *simulation) effects() (out []Effect) {
	e := sim.x
	for _, end := range sim.end {
		f := end.effect
		if f.Was = e.stateOf(end.n); f.Was == Removed {
			f.Was = Absent // long ago, perhaps
		}
		if f.Was != f.State && (f.Was != Absent || f.State != Removed) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Effect) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return slices.CompactFunc(out, func(a, b Effect) bool { return a.Key == b.Key })
}
