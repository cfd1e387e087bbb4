package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/explain"
	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Plan is what would be done, and what would come of it.
type Plan struct {
	// Base says what the plan was made on; see [Txn.Base].
	Base  Base
	Steps []Step
	// Pending are the touched keys that would not be configured at the end.
	Pending []kv.Status
	// Effects are all keys that would stand otherwise at the end, sorted.
	Effects []Effect
	// Held is why the deletions would be held back if the change came otherwise than as this
	// plan: more would go than may at once. Who executes the plan has seen them.
	Held string
}

// Step is one operation of a plan.
type Step struct {
	N      int // from 1
	Op     kv.Operation
	Key    kv.Key
	Reason string
	// Cause is the key whose change made the step due, empty if it was asked.
	Cause kv.Key
	// After are the steps that must be done before.
	After []int
	// Disruption is what the step does to traffic; Cascading if others must go
	// because of it.
	Disruption kv.Disruption
}

// Effect is how a key would stand at the end, and stands now.
type Effect struct {
	Key        kv.Key
	Was, State kv.State
	Reason     string
	Missing    []kv.Missing
}

// Breaks reports whether the key is in order now and would not be so.
func (f Effect) Breaks() bool {
	return (f.Was == kv.Configured || f.Was == kv.Observed) && f.State != kv.Configured && f.State != kv.Observed && f.State != kv.Removed
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
	if p.Held != "" {
		fmt.Fprintf(&b, "held back without this plan: %s\n", p.Held)
	}
	return b.String()
}

// Simulation is the outside while a preview is computed: every operation succeeds at
// once and becomes a step.
type Simulation struct {
	nobody
	e     *engine.Engine
	x     *explain.Explainer
	Plan  Plan
	to    []any                 // what each step brings about, nil for deletions
	since []int                 // how many outcomes were taken in when each step began
	last  map[*graph.Node]int   // the newest step of each node
	used  map[*graph.Node][]use // the steps of what depends, or depended, on each node
	done  []*kind.Op
	head  int
	// halted reports whether the preview is to end.
	halted func() bool
	mark   uint32 // nodes with a higher one were asked for
	end    []ending

	// What the newest step adds to last and used, once there is another.
	newest use
	under  []*graph.Node
}

// nobody hears what a preview has to say besides its operations.
type nobody struct{}

func (nobody) Full() bool                           { return true }
func (nobody) MayDisrupt(*graph.Node) bool          { return true }
func (nobody) QueueLook(*graph.Node)                {}
func (nobody) AfterRead(*kind.Kind, *graph.Node)    {}
func (nobody) RecheckDependents(*graph.Node)        {}
func (nobody) Touch(*graph.Node)                    {}
func (nobody) TellInterest(*graph.Node, *kind.Kind) {}
func (nobody) Flapped(*graph.Node)                  {}
func (nobody) DampFlaps(*graph.Node)                {}
func (nobody) ChangedBy(*graph.Node) string         { return "" }
func (nobody) Unblock(*graph.Node)                  {}
func (nobody) Unwait(*graph.Node)                   {}
func (nobody) SourceSynced(int8)                    {}
func (nobody) RetryAt(*graph.Node, time.Time)       {}

// ending is how a node stands at the end.
type ending struct {
	n      *graph.Node
	effect Effect
}

// use is a step of what depends on a node; forced if it is the deletion of a
// value that is wanted all the same.
type use struct {
	step   int
	forced bool
}

// run works a change out to its end.
func (sim *Simulation) run() {
	e := sim.e
	for {
		e.SettleDirty()
		if sim.head == len(sim.done) || sim.halted() {
			return
		}
		o := sim.done[sim.head]
		sim.head++
		e.G.Unuse(o.Node)
		e.CausedBy(o.Cause, o.Node, func() { e.Succeeded(o.Node, o) })
		e.G.Wake(o.Node)
	}
}

// Begin records an operation and lets it be under way until its turn.
func (sim *Simulation) Begin(o *kind.Op, a assess.Assessment) {
	e, n := sim.e, o.Node
	sim.file()
	s := Step{N: len(sim.Plan.Steps) + 1, Op: o.What, Key: o.Key, Reason: a.Reason, Cause: sim.cause(o), After: sim.after(n, o)}
	if a.Replace {
		s.Reason = "replaced: " + a.Reason
	}
	s.Disruption = sim.disruption(o)
	delete(sim.used, n) // they are before this step, which the next on n is after
	sim.Plan.Steps = append(sim.Plan.Steps, s)
	sim.to = append(sim.to, o.To)
	sim.since = append(sim.since, sim.head)
	sim.uses(n, use{s.N, o.What == kv.OpDelete && n.Goal() != nil && (!a.Replace || assess.Has(n, assess.FlagStale))})
	e.G.BecomeOperating(n, a.Due != assess.DoDelete)
	sim.done = append(sim.done, o)
}

// file takes the newest step into the maps. Most plans have one step, which
// needs none.
func (sim *Simulation) file() {
	n := len(sim.done)
	if n == 0 {
		return
	}
	if sim.last == nil {
		sim.last, sim.used = map[*graph.Node]int{}, map[*graph.Node][]use{}
	}
	sim.last[sim.done[n-1].Node] = n
	for _, m := range sim.under {
		sim.used[m] = append(sim.used[m], sim.newest)
	}
	sim.under = sim.under[:0]
}

// cause finds the key whose change made an operation due: what is missing, what
// it is part of, or what came last of all that it needs.
func (sim *Simulation) cause(o *kind.Op) (key kv.Key) {
	n := o.Node
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
		if edge.State == graph.Missing && o.What == kv.OpDelete {
			return edge.To.Key
		}
		if s := sim.last[edge.To]; s > latest {
			latest, key = s, edge.To.Key
		}
	}
	if latest == 0 && o.Via != nil {
		return o.Via.Key
	}
	return key
}

func (sim *Simulation) disruption(o *kind.Op) (class kv.Disruption) {
	switch {
	case o.What != kv.OpCreate && slices.ContainsFunc(sim.used[o.Node], func(u use) bool { return u.forced }):
		return kv.Cascading
	case o.Kind.Disruption != nil:
		sim.e.Guard(o.Node, func() { class = o.Kind.Disruption(o.Key, o.From, o.To) })
	case o.What == kv.OpDelete:
		class = kv.Disruptive
	}
	return class
}

// uses notes on what the step, and what it ends or brings, stands. An update
// that forced n to go cascades.
func (sim *Simulation) uses(n *graph.Node, u use) {
	for _, edge := range n.Out {
		if edge.To == nil || edge.Together() {
			continue
		}
		sim.under = append(sim.under, edge.To)
	}
	sim.newest = u
	if by := n.Via; u.forced && by != nil && !by.Leaving && sim.last[by] > 0 {
		if s := &sim.Plan.Steps[sim.last[by]-1]; s.Op == kv.OpUpdate {
			s.Disruption = kv.Cascading
		}
	}
}

// after finds the steps that had to come before an operation on n: the last one
// on itself and on what it needs, and those of what depends on it.
func (sim *Simulation) after(n *graph.Node, o *kind.Op) (out []int) {
	add := func(m *graph.Node) {
		if s := sim.last[m]; s > 0 {
			out = append(out, s)
		}
	}
	add(n)
	for _, edge := range n.Out {
		if o.What != kv.OpDelete && edge.OfDesired() && !edge.Together() && edge.To != nil {
			add(edge.To)
		}
	}
	for _, u := range sim.used[n] {
		out = append(out, u.step)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Finish completes the plan of a preview. It needs the graph no longer, so it can run outside
// the loop.
func (sim *Simulation) Finish() Plan {
	p := &sim.Plan
	h := sumOffset
	for i := range p.Steps {
		s := &p.Steps[i]
		h = h.text(string(s.Key)).num(uint64(s.Op))
		for _, a := range s.After {
			h = h.num(uint64(a))
		}
	}
	p.Base.steps = max(uint64(h), 1)
	b := &p.Base
	slices.SortFunc(b.reads, func(x, y read) int { return strings.Compare(string(x.key), string(y.key)) })
	b.reads = slices.CompactFunc(b.reads, func(x, y read) bool { return x.key == y.key })
	slices.SortFunc(p.Effects, func(a, b Effect) int { return strings.Compare(string(a.Key), string(b.Key)) })
	p.Effects = slices.CompactFunc(p.Effects, func(a, b Effect) bool { return a.Key == b.Key })
	return *p
}

// reads is what the plan was made on: all that it changed and took back, and what that needs.
func (sim *Simulation) reads() []read {
	reads := make([]read, 0, 2*len(sim.end))
	sim.e.G.Tried(func(n *graph.Node) {
		if sim.halted() {
			return
		}
		if n.Dropped() {
			reads = append(reads, read{key: n.Key})
			return
		}
		reads = append(reads, readOf(n))
		for _, edge := range n.Out {
			if edge.To != nil && edge.OfDesired() {
				reads = append(reads, readOf(edge.To))
			}
		}
	})
	return reads
}

// ends notes how every node that was changed stands at the end, with its base,
// which is configured only when all that it derives is.
func (sim *Simulation) ends() {
	e := sim.x
	e.G.Tried(func(n *graph.Node) {
		if sim.halted() {
			return
		}
		for ; n != nil; n = n.Base {
			f := Effect{Key: n.Key, State: e.StateOf(n)}
			if f.State != kv.Configured && f.State != kv.Absent && f.State != kv.Removed {
				s := e.Status(n)
				f.Reason, f.Missing = s.Reason, s.Missing
			}
			sim.end = append(sim.end, ending{n, f})
		}
	})
}

// effects are the ends that differ from how things stand again now.
func (sim *Simulation) effects() (out []Effect) {
	e := sim.x
	for _, end := range sim.end {
		if sim.halted() {
			return nil
		}
		f := end.effect
		if f.Was = e.StateOf(end.n); f.Was == kv.Removed {
			f.Was = kv.Absent // long ago, perhaps
		}
		if f.Was != f.State && (f.Was != kv.Absent || f.State != kv.Removed) {
			out = append(out, f)
		}
	}
	return out
}
