package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Explainer puts into words what the assessor says.
type Explainer struct{ *assess.Assessor }

// New makes an explainer of what the assessor says.
func New(as *assess.Assessor) *Explainer { return &Explainer{as} }

// explain sets reason, missing needs and invalid fields.
func (e *Explainer) explain(n *graph.Node, s *kv.Status) {
	switch s.State {
	case kv.InvalidState:
		e.explainInvalid(n, s)
	case kv.Pending:
		e.explainPending(n, e.Assess(n), s)
	case kv.Failed, kv.Retrying:
		if n.X != nil && n.X.Err != nil {
			s.Reason = kv.FirstLine(n.X.Err)
		} else {
			e.explainDerived(n, s)
		}
	case kv.Unimplemented:
		s.Reason = "no descriptor is registered for it"
	case kv.Paused:
		s.Reason = e.pauseReason(n)
	case kv.Unknown:
		s.Reason = unknownReason(n)
	case kv.Drifted:
		s.Reason = explainDrift(n, s.Drift)
	case kv.Configured:
		if assess.Left(n) {
			s.Reason = explainDrift(n, s.Drift)
		}
	case kv.Observed:
		if n.X != nil {
			s.Reason = kv.FirstLine(n.X.Derived)
		}
	case kv.Leftover:
		s.Reason = e.leftoverReason(n, e.Assess(n))
	}
	if n.AsLastSeen() && n.Presence != graph.Absent && s.Reason == "" {
		s.Reason = "as last seen; it cannot be read now: " + kv.FirstLine(kind.Of(n).Look.Err)
	}
	if s.Reason != "" && (assess.Has(n, assess.FlagAwaitsTurn) || n.Leaving && n.Presence == graph.Present && n.Wanted()) {
		s.Reason += "; "
	}
	switch {
	case assess.Has(n, assess.FlagAwaitsTurn):
		s.Reason += e.turnReason(n)
	case n.Leaving && n.Presence == graph.Present && n.Wanted():
		if e.changesInPlace(n) {
			s.Reason += "it is being changed"
		} else {
			s.Reason += "what is there is being removed"
		}
		if p := pinner(n); p != nil {
			s.Reason += ", once " + string(p.Key) + " is gone"
		}
	}
}

// changesInPlace reports whether a node that satisfies nobody is to change in place.
func (e *Explainer) changesInPlace(n *graph.Node) (yes bool) {
	if k, goal := kind.Of(n), n.Goal(); k != nil && goal != nil && !assess.Has(n, assess.FlagStale) {
		e.Guard(n, func() { yes = e.Verdict(n, k, n.Actual, goal).Change == kv.InPlaceAlone })
	}
	return yes
}

func (e *Explainer) explainInvalid(n *graph.Node, s *kv.Status) {
	var err error
	switch {
	case n.X != nil && n.X.Invalid != nil:
		err = n.X.Invalid
	case n.Lost() != nil:
		err = lost(n.Lost())
	case n.X != nil && n.X.Derived != nil:
		err = n.X.Derived
	default:
		err = e.Disagrees(n)
	}
	if err == nil {
		e.explainDerived(n, s)
		return
	}
	s.Reason = kv.FirstLine(err)
	var invalid *kv.InvalidError
	if errors.As(err, &invalid) {
		s.Fields = slices.Clone(invalid.Fields)
	}
	switch x := n.X; {
	case x == nil || x.Invalid == nil:
	case n.Lost() != nil:
		s.Reason += "; of the last valid value, " + lost(n.Lost()).Error()
	case n.Goal() != nil && n.Presence == graph.Present:
		s.Reason += "; the object of the last valid value stays"
	}
}

// lost says who has a name, and why that counts.
func lost(c *graph.Claim) error {
	if c.Owned() {
		return fmt.Errorf("%s is in use by %s", c.What, c.Winner().Key)
	}
	return fmt.Errorf("%s is claimed by %s too, which comes first", c.What, c.Winner().Key)
}

func (e *Explainer) explainPending(n *graph.Node, a assess.Assessment, s *kv.Status) {
	if a.Blocker == assess.OnDerived {
		e.explainDerived(n, s)
		return
	}
	for _, edge := range n.Out {
		if !edge.OfDesired() || edge.State == graph.Satisfied {
			continue
		}
		// A peer is often needed twice: together, and to be made after it.
		named := func(m kv.Missing) bool { return m.Need == edge.Target() }
		if !slices.ContainsFunc(s.Missing, named) {
			s.Missing = append(s.Missing, kv.Missing{Need: edge.Target(), Why: e.whyMissing(edge)})
		}
	}
	switch {
	case len(s.Missing) > 0:
		names := make([]string, len(s.Missing))
		for i, m := range s.Missing {
			names[i] = m.Need
		}
		s.Reason = "needs " + strings.Join(names, ", ")
		if cycle := e.cycle(n); cycle != "" {
			s.Reason += "; they need each other in a cycle: " + cycle
		}
	default:
		s.Reason = e.pendingReason(n, a)
	}
}

// turnReason says how many of its kind may go, of a node that waits for its turn.
func (e *Explainer) turnReason(n *graph.Node) string {
	limit, _ := e.Policies.Disruptions(n.Key)
	what := "to be replaced"
	switch {
	case n.Goal() == nil:
		what = "to be removed"
	case n.Needs() == graph.Missing:
		what = "to make way"
	case e.changesInPlace(n):
		what = "to be changed"
	}
	return fmt.Sprintf("it waits for its turn %s: no more than %d of %s may go within a minute", what, limit, kind.Of(n).Name)
}

// pendingReason says what a node waits for that lacks nothing that it needs.
func (e *Explainer) pendingReason(n *graph.Node, a assess.Assessment) string {
	switch {
	case a.Blocker == assess.OnBudget:
		return "" // explain says so
	case a.Blocker == assess.OnHolder:
		c, h := n.Holder()
		return fmt.Sprintf("%s is still held by %s", c.What, h.Key)
	case a.Blocker == assess.OnPeer:
		return string(a.By.Key) + ", which it goes together with, is still being replaced"
	case n.Leaving && e.changesInPlace(n):
		return "" // explain says so, with what it waits for
	case n.Leaving:
		return "it is being replaced"
	case a.Blocker == assess.OnOperation && n.Presence == graph.Absent:
		return "it is being created"
	case a.Blocker == assess.OnOperation:
		return "it is being updated"
	case a.Blocker == assess.OnEnding:
		return "it waits until " + string(a.By.Key) + " is gone, which cannot stand on what it becomes"
	case a.Blocker == assess.OnUsers:
		return "something that is being made needs it as it is"
	case a.Blocker == assess.OnBase:
		return "it waits until " + baseMoves(a.By)
	case a.Blocker == assess.OnNeededKind:
		return "it waits until all of " + a.Read.Name + " was read"
	}
	return "it is due"
}

// baseMoves says what has to come of a base before what it derives may follow.
func baseMoves(base *graph.Node) string {
	if assess.Has(base, assess.FlagAwaitsTurn) {
		return "it is the turn of " + string(base.Key)
	}
	return string(base.Key) + " is as wanted"
}

func (e *Explainer) explainDerived(n *graph.Node, s *kv.Status) {
	if n.X == nil {
		return
	}
	for _, c := range n.X.Children {
		cs := e.Status(c)
		if cs.State == kv.Configured || !c.Wanted() {
			continue
		}
		why := cs.State.String()
		if cs.Reason != "" {
			why += ": " + cs.Reason
		}
		s.Missing = append(s.Missing, kv.Missing{Need: string(c.Key), Why: why})
		if s.Reason == "" {
			s.Reason = string(c.Key) + " is " + why
		}
	}
}

// whyMissing says what a need is for and how the needed thing stands.
func (e *Explainer) whyMissing(edge *graph.Edge) string {
	why := edge.Why
	if edge.Prefix() != "" {
		if edge.State == graph.Unsure {
			return why + " (it cannot be told now whether there is one)"
		}
		return why
	}
	t := edge.To
	if edge.Together() && t.Desired != nil {
		return why + " (" + e.whyUnit(edge) + ")"
	}
	if how := e.howStands(t, edge); how != "" {
		return why + " (" + how + ")"
	}
	return why
}

func (e *Explainer) whyUnit(edge *graph.Edge) string {
	if err := edge.Agree(edge.To.Desired); err != nil {
		return kv.FirstLine(err)
	}
	for _, o := range edge.To.Out {
		if o.OfDesired() && o.State != graph.Satisfied && !o.Together() && o.To != edge.From {
			return "which itself needs " + o.Target()
		}
	}
	return "which is " + e.OwnState(edge.To).String()
}

func (e *Explainer) howStands(t *graph.Node, edge *graph.Edge) string {
	k := kind.Of(t)
	switch {
	case k == nil:
		return "no descriptor is registered for it"
	case t.X != nil && t.X.GoneAt != 0:
		return "it went a moment ago and may come back"
	case t.AsLastSeen():
		return "it cannot be read now: " + kv.FirstLine(k.Look.Err)
	case k.Observed && t.Presence == graph.Unknown && t.X != nil && t.X.Err != nil:
		return kv.FirstLine(t.X.Err)
	case t.Presence == graph.Unknown || k.Observed && !k.Read:
		return "not known yet"
	case t.Presence == graph.Present && t.Leaving:
		return "on its way out"
	case t.Frozen && e.PausedBy(t) != nil:
		return "paused: " + e.PausedBy(t).Reason
	case t.Presence == graph.Present && t.Busy():
		return "being changed"
	case t.Presence == graph.Present && edge.Tell() != "":
		return edge.Tell()
	case t.Presence == graph.Present:
		return "it is there, but not as needed"
	case t.Wanted():
		return e.OwnState(t).String()
	case k.Observed:
		return "not there"
	}
	return "not in the intent"
}

func unknownReason(n *graph.Node) string {
	k := kind.Of(n)
	switch {
	case n.X != nil && n.X.GoneAt != 0:
		return "it went a moment ago and may come back"
	case n.X != nil && n.X.Err != nil:
		return kv.FirstLine(n.X.Err)
	case k != nil && k.Look.Err != nil:
		return "the actual state cannot be read: " + kv.FirstLine(k.Look.Err)
	}
	return "it has not been read yet"
}

// leftoverReason says why something is there that nobody wants.
func (e *Explainer) leftoverReason(n *graph.Node, a assess.Assessment) string {
	switch {
	case n.X != nil && n.X.Err != nil:
		return "it could not be removed: " + kv.FirstLine(n.X.Err)
	case a.Blocker == assess.OnPause:
		return "not in the intent, but paused: " + e.pauseReason(n)
	case assess.Taken(n):
		return "not in the intent; being given back"
	case a.Blocker == assess.OnDependents:
		return "not in the intent, but in use by " + string(pinner(n).Key)
	case a.Blocker == assess.OnSources:
		return "not in the intent so far; kept until " + haveSynced(e.Unsynced())
	case a.Blocker == assess.OnBase:
		return "not in the intent; stays until " + baseMoves(a.By)
	case a.Blocker == assess.OnBudget:
		return "not in the intent"
	case a.Blocker == assess.OnUnread:
		return "not in the intent; kept until " + e.NameUnread() + " has been read"
	}
	return "not in the intent; being removed"
}

func haveSynced(names []string) string {
	if len(names) == 1 {
		return names[0] + " has synced"
	}
	return strings.Join(names, ", ") + " have synced"
}

// pauseReason is why a node is paused that was when it was evaluated last.
func (e *Explainer) pauseReason(n *graph.Node) string {
	if p := e.PausedBy(n); p != nil {
		return p.Reason
	}
	return "the pause has just ended"
}

// pinner finds one node whose actual value depends on n.
func pinner(n *graph.Node) (p *graph.Node) {
	if n.Dependents > 0 {
		n.EachDependent(func(d *graph.Node) bool { p = d; return false })
	}
	return p
}

// cycle names a cycle of missing needs that n is part of, "" if there is none.
func (e *Explainer) cycle(n *graph.Node) string { return cycleText(cycleOf(n)) }

// cycleText names the members of a cycle, the first once more at the end.
func cycleText(path []*graph.Node) string {
	if len(path) == 0 {
		return ""
	}
	names := make([]string, 0, len(path)+1)
	for _, m := range path {
		names = append(names, string(m.Key))
	}
	return strings.Join(append(names, names[0]), " → ")
}

// cycleOf finds a cycle of missing needs that n is part of, nil if there is none. Two
// that need each other together are none by themselves.
func cycleOf(n *graph.Node) []*graph.Node {
	path := []*graph.Node{n}
	seen := map[*graph.Node]bool{n: true}
	var walk func(m *graph.Node, afar bool) bool
	walk = func(m *graph.Node, afar bool) bool {
		for _, edge := range m.Out {
			if !edge.OfDesired() || edge.State != graph.Missing || edge.To == nil || edge.To.Goal() == nil {
				continue
			}
			afar := afar || !edge.InUnit()
			if edge.To == n && afar {
				return true
			}
			if seen[edge.To] || len(seen) > 1000 {
				continue
			}
			seen[edge.To] = true
			path = append(path, edge.To)
			if walk(edge.To, afar) {
				return true
			}
			path = path[:len(path)-1]
		}
		return false
	}
	if !walk(n, false) {
		return nil
	}
	return path
}

func explainDrift(n *graph.Node, p kv.DriftPolicy) string {
	done := "changed"
	if n.Presence == graph.Absent {
		done = "removed"
	}
	what := "somebody else " + done + " it"
	if by := changedBy(n); by != "" {
		what = done + " by " + by
	}
	if assess.Left(n) {
		return fmt.Sprintf("%s; it is left so (policy %s)", what, p)
	}
	if assess.Has(n, assess.FlagAwaitsTurn) {
		return what
	}
	return what + "; it is being repaired"
}

// changedBy is who made a node drift, if it has and that is known.
func changedBy(n *graph.Node) string {
	if n.X == nil || !assess.Has(n, assess.FlagDrifted) {
		return ""
	}
	return n.X.By
}
