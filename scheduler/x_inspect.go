package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// inspections are the reads that show the keys under the prefixes.
func (e *explainer) inspections(prefixes []Key) []*op {
	var out []*op
	for _, k := range e.kinds.all() {
		if k.retrieve == nil {
			continue
		}
		whole := len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p Key) bool {
			return kv.IsPrefix(p) && strings.HasPrefix(string(k.Prefix), string(p))
		})
		o := &op{kind: k, what: OpLook, reading: &reading{scope: lookScope{all: whole}}}
		if whole {
			o.scope.known = e.knownOf(k)
			out = append(out, o)
			continue
		}
		for _, n := range e.nodesUnder(prefixes) {
			if n.Kind == &k.Kind {
				o.scope.keys = append(o.scope.keys, n.Key)
				o.scope.known = append(o.scope.known, knownNode(n))
			}
		}
		if slices.Sort(o.scope.keys); len(o.scope.keys) > 0 {
			out = append(out, o)
		}
	}
	return out
}

func (e *explainer) inspected(prefixes []Key, found map[Key]found, failed map[Key]error) []Status {
	var out []Status
	e.newPass()
	for _, n := range e.nodesUnder(prefixes) {
		k := kindOf(n)
		f, there := found[n.Key]
		delete(found, n.Key)
		s := e.statusNow(n)
		s.Derived = nil // they stand on their own here
		switch {
		case k == nil || k.retrieve == nil || n.Moving:
		case failed[n.Key] != nil:
			s.State, s.Reason = Unknown, kv.FirstLine(failed[n.Key])
		case failed[k.Prefix] != nil:
			s.State, s.Reason = Unknown, kv.FirstLine(failed[k.Prefix])
		default:
			e.compareFound(n, k, f, there, &s)
		}
		if s.State != Absent && s.State != Removed {
			out = append(out, s)
		}
	}
	for key, f := range found { // what nobody knew of
		k := e.kinds.find(key)
		if k == nil || !kv.Under(key, prefixes) {
			continue
		}
		s := Status{Key: key, Kind: k.Name, State: Observed, Actual: k.show(f.value), Meta: f.meta}
		if !f.foreign && !k.Observed {
			s.State, s.Reason = Leftover, "it bears our mark and is not in the intent"
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return out
}

// compareFound puts what was found beside what is wanted.
func (e *explainer) compareFound(n *graph.Node, k *kind, f found, there bool, s *Status) {
	s.Actual, s.Meta = nil, nil
	if there {
		s.Actual, s.Meta = k.show(f.value), f.meta
	}
	goal := n.Goal()
	switch {
	case goal == nil || n.Foreign:
		if !there && !n.Wanted() {
			s.State = Absent
		}
	case s.State != Configured && s.State != Drifted && s.State != Pending:
	case !there:
		if n.Presence == graph.Present {
			s.State, s.Reason = Drifted, "it is not there"
		}
	default:
		var v Verdict
		if !e.guard(n, func() { v = e.verdict(n, k, f.value, goal) }) {
			return
		}
		switch {
		case v.Change == Same:
		case s.Drift == DriftIgnore:
			s.State, s.Reason = Configured, fmt.Sprintf("the world differs, which its policy ignores: %s", v.Reason)
		default:
			s.State, s.Reason = Drifted, fmt.Sprintf("the world differs: %s", v.Reason)
		}
	}
}
