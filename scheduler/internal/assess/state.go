package assess

import (
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// StateOf is the state of a node with its derived values: a value is
// configured only when all that it derives is.
func (as *Assessor) StateOf(n *graph.Node) kv.State {
	s := as.OwnState(n)
	if s != kv.Configured || n.X == nil {
		return s
	}
	for _, c := range n.X.Children {
		if cs := as.StateOf(c); cs != kv.Configured && cs != kv.Removed && c.Wanted() && !Left(c) {
			if cs == kv.Unknown || cs == kv.Unimplemented || cs == kv.Drifted || cs == kv.Paused {
				return kv.Pending
			}
			return cs
		}
	}
	return s
}

// OwnState is the state of a node without what it derives.
func (as *Assessor) OwnState(n *graph.Node) kv.State {
	if n.Dropped() {
		return kv.Removed
	}
	if !n.Wanted() {
		return unwantedState(n)
	}
	switch x := n.X; {
	case x != nil && x.Invalid != nil, n.Lost() != nil, x != nil && x.Derived != nil, as.Disagrees(n) != nil:
		return kv.InvalidState
	case n.Kind == nil:
		return kv.Unimplemented
	case as.PausedBy(n) != nil:
		return kv.Paused
	case n.Phase == graph.Overdue:
		return kv.Failed
	case FailedToGo(n) && Has(n, FlagSame) && n.Needs() == graph.Satisfied:
		return as.wantedState(n) // it need not go any more
	case x != nil && x.Err != nil && (n.Held() != graph.NotHeld || n.Busy() || Has(n, FlagNeedsRead)):
		if n.Held() == graph.UntilChange {
			return kv.Failed
		}
		return kv.Retrying
	}
	return as.wantedState(n)
}

func unwantedState(n *graph.Node) kv.State {
	switch {
	case n.Presence == graph.Absent && Has(n, FlagWithdrawn):
		return kv.Removed
	case n.Presence == graph.Absent:
		return kv.Absent
	case n.Presence == graph.Unknown && !Has(n, FlagWithdrawn):
		return kv.Unknown
	case n.Foreign || n.Kind != nil && n.Kind.Observed:
		return kv.Observed
	}
	return kv.Leftover
}

func (as *Assessor) wantedState(n *graph.Node) kv.State {
	if Left(n) && n.Needs() == graph.Satisfied {
		if n.Presence == graph.Present && as.Policies.Drift(n.Key) == kv.DriftIgnore {
			return kv.Configured
		}
		return kv.Drifted
	}
	switch n.Presence {
	case graph.Unknown:
		if n.Needs() != graph.Satisfied {
			return kv.Pending
		}
		return kv.Unknown
	case graph.Present:
		switch {
		case staysConfigured(n):
			return kv.Configured
		case Has(n, FlagDrifted) && n.Needs() == graph.Satisfied:
			return kv.Drifted
		}
	}
	return kv.Pending
}

// Disagrees returns why a value needed together does not fit.
func (as *Assessor) Disagrees(n *graph.Node) error {
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

// SourceName names who wants a node. What it reads never changes, so anybody may ask.
func (as *Assessor) SourceName(src int8) string {
	switch {
	case src >= 0:
		return as.Sources[src].Name
	case src == graph.Derived:
		return "derived"
	}
	return ""
}
