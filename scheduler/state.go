package scheduler

import (
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// stateOf is the state of a node with its derived values: a value is
// configured only when all that it derives is.
func (as *assessor) stateOf(n *graph.Node) State {
	s := as.ownState(n)
	if s != Configured || n.X == nil {
		return s
	}
	for _, c := range n.X.Children {
		if cs := as.stateOf(c); cs != Configured && cs != Removed && c.Wanted() && !left(c) {
			if cs == Unknown || cs == Unimplemented || cs == Drifted || cs == Paused {
				return Pending
			}
			return cs
		}
	}
	return s
}

func (as *assessor) ownState(n *graph.Node) State {
	if n.Dropped() {
		return Removed
	}
	if !n.Wanted() {
		return unwantedState(n)
	}
	switch x := n.X; {
	case x != nil && x.Invalid != nil, x != nil && x.Lost != nil, x != nil && x.Derived != nil, as.disagrees(n) != nil:
		return InvalidState
	case n.Kind == nil:
		return Unimplemented
	case as.pausedBy(n) != nil:
		return Paused
	case x != nil && x.Overdue:
		return Failed
	case failedToGo(n) && has(n, flagSame) && n.Needs() == graph.Satisfied:
		return as.wantedState(n) // it need not go any more
	case x != nil && x.Err != nil && (has(n, flagHeld) || n.Moving || has(n, flagSuspect)):
		if x.NextTry == 0 && has(n, flagHeld) {
			return Failed
		}
		return Retrying
	}
	return as.wantedState(n)
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

func (as *assessor) wantedState(n *graph.Node) State {
	if left(n) && n.Needs() == graph.Satisfied {
		if n.Presence == graph.Present && as.policies.Drift(n.Key) == DriftIgnore {
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
func (as *assessor) disagrees(n *graph.Node) error {
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
func (e *explainer) outcome(n *graph.Node, o *Outcome) {
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
func (e *explainer) statusNow(n *graph.Node) Status {
	s := e.status(n)
	e.markBusy(n, &s)
	return s
}

func (e *explainer) markBusy(n *graph.Node, s *Status) {
	s.Busy = e.busy(n)
	for i := range s.Derived {
		e.markBusy(n.X.Children[i], &s.Derived[i])
	}
}

// status tells all that is known of a node, but for whether it is busy.
func (e *explainer) status(n *graph.Node) Status {
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
		s.Drift = e.policies.Drift(n.Key)
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

// sourceName names who wants a node. What it reads never changes, so anybody may ask.
func (as *assessor) sourceName(src int8) string {
	switch {
	case src >= 0:
		return as.sources[src].name
	case src == graph.Derived:
		return "derived"
	}
	return ""
}

func (e *explainer) origin(n *graph.Node, s *Status) {
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
