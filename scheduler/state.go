package scheduler

import (
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
