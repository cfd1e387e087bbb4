package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// stateOf is the state of a node with its derived values: a value is
// configured only when all that it derives is.
func (e *engine) stateOf(n *graph.Node) State {
	s := e.ownState(n)
	if s != Configured || n.X == nil {
		return s
	}
	for _, c := range n.X.Children {
		if cs := e.stateOf(c); cs != Configured && cs != Removed && c.Wanted() && !left(c) {
			if cs == Unknown || cs == Unimplemented || cs == Drifted || cs == Paused {
				return Pending
			}
			return cs
		}
	}
	return s
}

func (e *engine) ownState(n *graph.Node) State {
	if n.Dropped() {
		return Removed
	}
	if !n.Wanted() {
		return unwantedState(n)
	}
	switch x := n.X; {
	case x != nil && x.Invalid != nil, x != nil && x.Lost != nil, x != nil && x.Derived != nil, e.disagrees(n) != nil:
		return InvalidState
	case n.Kind == nil:
		return Unimplemented
	case e.pausedBy(n) != nil:
		return Paused
	case x != nil && x.Overdue:
		return Failed
	case failedToGo(n) && has(n, flagSame) && n.Needs() == graph.Satisfied:
		return e.wantedState(n) // it need not go any more
	case x != nil && x.Err != nil && (has(n, flagHeld) || n.Moving || has(n, flagSuspect)):
		if x.NextTry == 0 && has(n, flagHeld) {
			return Failed
		}
		return Retrying
	}
	return e.wantedState(n)
}

func unwantedState(n *graph.Node) State {
	switch {
	case n.Presence == graph.Absent && has(n, flagWithdrawn):
		return Removed
	case n.Presence == graph.Absent:
		return Absent
	case n.Presence == graph.Unknown && !has(n, flagWithdrawn):
		return Unknown
	case n.Foreign || n.Kind != nil && n.Kind.Observed:
		return Observed
	}
	return Leftover
}

func (e *engine) wantedState(n *graph.Node) State {
	if left(n) && n.Needs() == graph.Satisfied {
		if n.Presence == graph.Present && e.opts.drift(n.Key) == DriftIgnore {
			return Configured
		}
		return Drifted
	}
	switch n.Presence {
	case graph.Unknown:
		if n.Needs() != graph.Satisfied {
			return Pending
		}
		return Unknown
	case graph.Present:
		switch {
		case has(n, flagSame) && n.Needs() != graph.Missing && !has(n, flagStale) && !n.Leaving:
			return Configured
		case has(n, flagDrifted) && n.Needs() == graph.Satisfied:
			return Drifted
		}
	}
	return Pending
}

// disagrees returns why a value needed together does not fit.
func (e *engine) disagrees(n *graph.Node) error {
	if n.Needs() != graph.Missing {
		return nil
	}
	for _, edge := range n.Out {
		if edge.Together() && edge.OfDesired() && edge.State == graph.Missing && edge.To.Desired != nil {
			if err := edge.Agree(edge.To.Desired); err != nil {
				return err
			}
		}
	}
	return nil
}

// outcome tells how a node settled. Where thousands wait, only what for is
// told: whoever wants to know more of one asks for its status.
func (e *engine) outcome(n *graph.Node, o *Outcome) {
	switch o.State = e.stateOf(n); {
	case o.State == Configured, o.State == Removed, o.State == Absent:
	case o.State == Pending && n.Needs() != graph.Satisfied:
		for _, edge := range n.Out {
			if !edge.OfDesired() || edge.State == graph.Satisfied {
				continue
			}
			if o.Reason == "" {
				o.Reason = "needs " + edge.Target()
			} else if t := edge.Target(); !strings.HasSuffix(o.Reason, " "+t) {
				o.Reason += ", " + t
			}
		}
	default:
		o.Reason = e.status(n).Reason
	}
}

// statusNow is the status of a node with what is still to come of it. It is for many
// nodes in one pass, see newPass.
func (e *engine) statusNow(n *graph.Node) Status {
	s := e.status(n)
	e.markBusy(n, &s)
	return s
}

func (e *engine) markBusy(n *graph.Node, s *Status) {
	s.Busy = e.busy(n)
	for i := range s.Derived {
		e.markBusy(n.X.Children[i], &s.Derived[i])
	}
}

// status tells all that is known of a node, but for whether it is busy.
func (e *engine) status(n *graph.Node) Status {
	k := kindOf(n)
	s := Status{Key: n.Key, State: e.stateOf(n), Actual: k.show(n.Actual), Meta: n.Meta, Desired: k.show(n.Desired),
		Revision: n.Revision, Cause: n.Cause}
	if n.Presence == graph.Absent {
		s.Actual, s.Meta = nil, nil
	}
	if n.Since != 0 {
		s.Since = time.Unix(0, n.Since)
	}
	if n.Via != nil {
		s.Via = n.Via.Key
	}
	if n.Kind != nil {
		s.Kind = n.Kind.Name
	} else {
		s.Kind, _, _ = strings.Cut(string(n.Key), "/")
	}
	if n.Base != nil && !n.Dropped() {
		s.Base = n.Base.Key
	}
	e.origin(n, &s)
	if n.Wanted() {
		s.Drift = e.opts.drift(n.Key)
	}
	e.explain(n, &s)
	if n.X != nil {
		s.Attempts = n.X.Attempts
		if n.X.NextTry != 0 {
			s.NextTry = time.Unix(0, n.X.NextTry)
		}
		for _, c := range n.X.Children {
			d := e.status(c)
			if s.State == Retrying && d.State == Retrying && (s.NextTry.IsZero() || d.NextTry.Before(s.NextTry)) {
				s.NextTry, s.Attempts = d.NextTry, d.Attempts // the base is tried when what it derives is
			}
			s.Derived = append(s.Derived, d)
		}
	}
	return s
}

// sourceName names who wants a node; it reads only what never changes.
func (e *engine) sourceName(src int8) string {
	switch {
	case src >= 0:
		return e.sources[src].name
	case src == graph.Derived:
		return "derived"
	}
	return ""
}

func (e *engine) origin(n *graph.Node, s *Status) {
	s.Origin = e.sourceName(n.Source)
	if n.X == nil {
		return
	}
	if n.X.Asked != nil && n.Desired == nil {
		s.Desired = kindOf(n).show(n.X.Asked)
	}
	for _, w := range n.X.Wants {
		if w.Source != n.Source {
			s.Shadowed = append(s.Shadowed, e.sources[w.Source].name)
		}
	}
}

// explain sets reason, missing needs and invalid fields.
func (e *engine) explain(n *graph.Node, s *Status) {
	switch s.State {
	case InvalidState:
		e.explainInvalid(n, s)
	case Pending:
		e.explainPending(n, s)
	case Failed, Retrying:
		if n.X != nil && n.X.Err != nil {
			s.Reason = firstLine(n.X.Err)
		} else {
			e.explainDerived(n, s)
		}
	case Unimplemented:
		s.Reason = "no descriptor is registered for it"
	case Paused:
		s.Reason = e.pausedBy(n).reason
	case Unknown:
		s.Reason = unknownReason(n)
	case Drifted:
		s.Reason = explainDrift(n, s.Drift)
	case Configured:
		if left(n) {
			s.Reason = explainDrift(n, s.Drift)
		}
	case Observed:
		if n.X != nil {
			s.Reason = firstLine(n.X.Derived)
		}
	case Leftover:
		e.explainLeftover(n, s)
	}
	if n.Stale() && n.Presence != graph.Absent && s.Reason == "" {
		s.Reason = "as last seen; it cannot be read now: " + firstLine(kindOf(n).look.err)
	}
	if n.Leaving && n.Presence == graph.Present && n.Wanted() {
		if s.Reason != "" {
			s.Reason += "; "
		}
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
func (e *engine) changesInPlace(n *graph.Node) (yes bool) {
	if k, goal := kindOf(n), n.Goal(); k != nil && goal != nil && !has(n, flagStale) {
		e.guard(n, func() { yes = e.verdict(n, k, n.Actual, goal).Change == InPlaceAlone })
	}
	return yes
}

func firstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (e *engine) explainInvalid(n *graph.Node, s *Status) {
	var err error
	switch {
	case n.X != nil && n.X.Invalid != nil:
		err = n.X.Invalid
	case n.X != nil && n.X.Lost != nil:
		err = lost(n.X.Lost)
	case n.X != nil && n.X.Derived != nil:
		err = n.X.Derived
	default:
		err = e.disagrees(n)
	}
	if err == nil {
		e.explainDerived(n, s)
		return
	}
	s.Reason = firstLine(err)
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		s.Fields = slices.Clone(invalid.Fields)
	}
	switch x := n.X; {
	case x == nil || x.Invalid == nil:
	case x.Lost != nil:
		s.Reason += "; of the last valid value, " + lost(x.Lost).Error()
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

func (e *engine) explainPending(n *graph.Node, s *Status) {
	for _, edge := range n.Out {
		if !edge.OfDesired() || edge.State == graph.Satisfied {
			continue
		}
		// A peer is often needed twice: together, and to be made after it.
		named := func(m Missing) bool { return m.Need == edge.Target() }
		if !slices.ContainsFunc(s.Missing, named) {
			s.Missing = append(s.Missing, Missing{Need: edge.Target(), Why: e.whyMissing(edge)})
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
			s.Reason += "; they need each other in a circle: " + cycle
		}
	case waitingFor(n) != "":
		s.Reason = waitingFor(n)
	case n.Leaving:
		if !e.changesInPlace(n) {
			s.Reason = "it is being replaced"
		}
	case n.Moving && n.Presence == graph.Absent:
		s.Reason = "it is being created"
	case n.Moving:
		s.Reason = "it is being updated"
	case has(n, flagSame):
		e.explainDerived(n, s)
	case n.Ending() != nil:
		s.Reason = "it waits until " + string(n.Ending().Key) + " is gone, which cannot stand on what it becomes"
	case n.Used > 0:
		s.Reason = "something that is being made needs it as it is"
	case baseUntried(n):
		s.Reason = "it waits until " + string(n.Base.Key) + " is as wanted"
	case e.groundIsRead(n) != nil:
		s.Reason = "it waits until all of " + e.groundIsRead(n).Name + " was read"
	default:
		s.Reason = "it is due"
	}
}

func (e *engine) explainDerived(n *graph.Node, s *Status) {
	if n.X == nil {
		return
	}
	for _, c := range n.X.Children {
		cs := e.status(c)
		if cs.State == Configured || !c.Wanted() {
			continue
		}
		why := cs.State.String()
		if cs.Reason != "" {
			why += ": " + cs.Reason
		}
		s.Missing = append(s.Missing, Missing{Need: string(c.Key), Why: why})
		if s.Reason == "" {
			s.Reason = string(c.Key) + " is " + why
		}
	}
}

// whyMissing says what a need is for and how the needed thing stands.
func (e *engine) whyMissing(edge *graph.Edge) string {
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

func (e *engine) whyUnit(edge *graph.Edge) string {
	if err := edge.Agree(edge.To.Desired); err != nil {
		return firstLine(err)
	}
	for _, o := range edge.To.Out {
		if o.OfDesired() && o.State != graph.Satisfied && !o.Together() && o.To != edge.From {
			return "which itself needs " + o.Target()
		}
	}
	return "which is " + e.ownState(edge.To).String()
}

func (e *engine) howStands(t *graph.Node, edge *graph.Edge) string {
	k := kindOf(t)
	switch {
	case k == nil:
		return "no descriptor is registered for it"
	case t.X != nil && t.X.GoneAt != 0:
		return "it went a moment ago and may come back"
	case t.Stale():
		return "it cannot be read now: " + firstLine(k.look.err)
	case t.Presence == graph.Unknown || k.Observed && !k.Read:
		return "not known yet"
	case t.Presence == graph.Present && t.Leaving:
		return "on its way out"
	case t.Frozen && e.pausedBy(t) != nil:
		return "paused: " + e.pausedBy(t).reason
	case t.Presence == graph.Present && t.Moving:
		return "being changed"
	case t.Presence == graph.Present && edge.Tell() != "":
		return edge.Tell()
	case t.Presence == graph.Present:
		return "it is there, but not as needed"
	case t.Wanted():
		return e.ownState(t).String()
	case k.Observed:
		return "not there"
	}
	return "not in the intent"
}

func unknownReason(n *graph.Node) string {
	k := kindOf(n)
	switch {
	case n.X != nil && n.X.GoneAt != 0:
		return "it went a moment ago and may come back"
	case n.X != nil && n.X.Err != nil:
		return firstLine(n.X.Err)
	case k != nil && k.look.err != nil:
		return "the world cannot be read: " + firstLine(k.look.err)
	}
	return "it has not been read yet"
}

func (e *engine) explainLeftover(n *graph.Node, s *Status) {
	switch p := pinner(n); {
	case n.X != nil && n.X.Err != nil:
		s.Reason = "it could not be removed: " + firstLine(n.X.Err)
	case e.pausedBy(n) != nil:
		s.Reason = "not in the intent, but paused: " + e.pausedBy(n).reason
	case taken(n):
		s.Reason = "not in the intent; being given back"
	case p != nil:
		s.Reason = "not in the intent, but in use by " + string(p.Key)
	case !e.mayDelete() && !has(n, flagWithdrawn):
		s.Reason = "not in the intent so far; kept until " + e.unspoken() + " has synced"
	case staysWithBase(n):
		s.Reason = "not in the intent; stays until " + string(n.Base.Key) + " is as wanted"
	case has(n, flagAdopted) && e.unread():
		s.Reason = "not in the intent; kept until " + e.nameUnread() + " has been read"
	default:
		s.Reason = "not in the intent; being removed"
	}
}

func (e *engine) unspoken() string {
	var names []string
	for _, s := range e.sources {
		switch {
		case s.spoken:
		case s.name == "":
			names = append(names, "the source")
		default:
			names = append(names, s.name)
		}
	}
	return strings.Join(names, ", ")
}

// pinner finds one node whose world stands on n.
func pinner(n *graph.Node) (p *graph.Node) {
	if n.Standing > 0 {
		n.Standers(func(d *graph.Node) bool { p = d; return false })
	}
	return p
}

// cycle names a circle of missing needs that n is part of, "" if there is none.
func (e *engine) cycle(n *graph.Node) string { return circleText(circleOf(n)) }

// circleText names the members of a circle, the first once more at the end.
func circleText(path []*graph.Node) string {
	if len(path) == 0 {
		return ""
	}
	names := make([]string, 0, len(path)+1)
	for _, m := range path {
		names = append(names, string(m.Key))
	}
	return strings.Join(append(names, names[0]), " → ")
}

// circleOf finds a circle of missing needs that n is part of, nil if there is none. Two
// that need each other together are none by themselves.
func circleOf(n *graph.Node) []*graph.Node {
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
