package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Inspections are the reads that show the keys under the prefixes. They change nothing.
func (e *Explainer) Inspections(prefixes []kv.Key) []*kind.Op {
	var out []*kind.Op
	for _, k := range e.Kinds.All() {
		if k.Retrieve == nil {
			continue
		}
		whole := len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p kv.Key) bool {
			return kv.IsPrefix(p) && strings.HasPrefix(string(k.Prefix), string(p))
		})
		o := &kind.Op{Kind: k, What: kv.OpLook, Reading: &kind.Reading{Scope: kind.Scope{All: whole, ReadOnly: true}}}
		if whole {
			o.Scope.Known = e.KnownOf(k)
			out = append(out, o)
			continue
		}
		for _, n := range e.NodesUnder(prefixes) {
			if n.Kind == &k.Kind {
				o.Scope.Keys = append(o.Scope.Keys, n.Key)
				o.Scope.Known = append(o.Scope.Known, kind.KnownNode(n))
			}
		}
		if slices.Sort(o.Scope.Keys); len(o.Scope.Keys) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// Inspected are the statuses of the keys under the prefixes by what was found there.
func (e *Explainer) Inspected(prefixes []kv.Key, found map[kv.Key]kind.Found, failed map[kv.Key]error) []kv.Status {
	var out []kv.Status
	e.NewPass()
	for _, n := range e.NodesUnder(prefixes) {
		k := kind.Of(n)
		f, there := found[n.Key]
		delete(found, n.Key)
		s := e.StatusNow(n)
		s.Derived = nil // they depend on their own here
		switch {
		case k == nil || k.Retrieve == nil || n.Busy():
		case failed[n.Key] != nil:
			s.State, s.Reason = kv.Unknown, kv.FirstLine(failed[n.Key])
		case failed[k.Prefix] != nil:
			s.State, s.Reason = kv.Unknown, kv.FirstLine(failed[k.Prefix])
		default:
			e.compareFound(n, k, f, there, &s)
		}
		if s.State != kv.Absent && s.State != kv.Removed {
			out = append(out, s)
		}
	}
	for key, f := range found { // what nobody knew of
		k := e.Kinds.Find(key)
		if k == nil || !kv.Under(key, prefixes) {
			continue
		}
		s := kv.Status{Key: key, Kind: k.Name, State: kv.Observed, Actual: k.Show(f.Value), Meta: f.Meta}
		if !f.Foreign && !k.Observed {
			s.State, s.Reason = kv.Leftover, "it bears our mark and is not in the intent"
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b kv.Status) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return out
}

// compareFound puts what was found beside what is wanted.
func (e *Explainer) compareFound(n *graph.Node, k *kind.Kind, f kind.Found, there bool, s *kv.Status) {
	s.Actual, s.Meta = nil, nil
	if there {
		s.Actual, s.Meta = k.Show(f.Value), f.Meta
	}
	goal := n.Goal()
	switch {
	case goal == nil || n.Foreign:
		if !there && !n.Wanted() {
			s.State = kv.Absent
		}
	case s.State != kv.Configured && s.State != kv.Drifted && s.State != kv.Pending:
	case !there:
		if n.Presence == graph.Present {
			s.State, s.Reason = kv.Drifted, "it is not there"
		}
	default:
		var v kv.Verdict
		if !e.Guard(n, func() { v = e.Verdict(n, k, f.Value, goal) }) {
			return
		}
		switch {
		case v.Change == kv.Same:
		case s.Drift == kv.DriftIgnore:
			s.State, s.Reason = kv.Configured, fmt.Sprintf("the world differs, which its policy ignores: %s", v.Reason)
		default:
			s.State, s.Reason = kv.Drifted, fmt.Sprintf("the world differs: %s", v.Reason)
		}
	}
}
