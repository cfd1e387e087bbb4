package explain

import (
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Statuses returns what tells the statuses of nodes, with what is still to come of each. It
// begins a pass: nothing may change until the last one is told.
func (e *Explainer) Statuses() func(*graph.Node) kv.Status {
	e.NewPass()
	return e.statusNow
}

func (e *Explainer) statusNow(n *graph.Node) kv.Status {
	s := e.Status(n)
	e.markBusy(n, &s)
	return s
}

func (e *Explainer) markBusy(n *graph.Node, s *kv.Status) {
	s.Busy = e.Busy(n)
	for i := range s.Derived {
		e.markBusy(n.X.Children[i], &s.Derived[i])
	}
}

// Status tells all that is known of a node, but for whether it is busy.
func (e *Explainer) Status(n *graph.Node) kv.Status {
	k := kind.Of(n)
	s := kv.Status{Key: n.Key, State: e.StateOf(n), Actual: k.Show(n.Actual), Meta: n.Meta, Desired: k.Show(n.Desired),
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
		s.Drift = e.Policies.Drift(n.Key)
	}
	e.explain(n, &s)
	if n.X != nil {
		s.Attempts = n.X.Attempts
		if n.X.NextTry != 0 {
			s.NextTry = time.Unix(0, n.X.NextTry)
		}
		for _, c := range n.X.Children {
			d := e.Status(c)
			if s.State == kv.Retrying && d.State == kv.Retrying && (s.NextTry.IsZero() || d.NextTry.Before(s.NextTry)) {
				s.NextTry, s.Attempts = d.NextTry, d.Attempts // the base is tried when what it derives is
			}
			s.Derived = append(s.Derived, d)
		}
	}
	return s
}

func (e *Explainer) origin(n *graph.Node, s *kv.Status) {
	s.Origin = e.SourceName(n.Source)
	if n.X == nil {
		return
	}
	if n.X.Asked != nil && n.Desired == nil {
		s.Desired = kind.Of(n).Show(n.X.Asked)
	}
	for _, w := range n.X.Wants {
		if w.Source != n.Source {
			s.Shadowed = append(s.Shadowed, e.Sources[w.Source].Name)
		}
	}
}
