package explain

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Inspections collects the reads that show the keys under the prefixes. They change nothing.
// Add takes the nodes under the prefixes, in any number of calls.
type Inspections struct {
	e        *Explainer
	prefixes []kv.Key
	ops      map[*kind.Kind]*kind.Op
}

// NewInspections begins with the kinds of which all is read.
func (e *Explainer) NewInspections(prefixes []kv.Key) *Inspections {
	i := &Inspections{e: e, prefixes: prefixes, ops: map[*kind.Kind]*kind.Op{}}
	for _, k := range e.Kinds.All() {
		if k.Retrieve != nil && i.whole(k) {
			i.op(k)
		}
	}
	return i
}

func (i *Inspections) whole(k *kind.Kind) bool {
	return len(i.prefixes) == 0 || slices.ContainsFunc(i.prefixes, func(p kv.Key) bool {
		return kv.IsPrefix(p) && strings.HasPrefix(string(k.Prefix), string(p))
	})
}

func (i *Inspections) op(k *kind.Kind) *kind.Op {
	if i.ops[k] == nil {
		i.ops[k] = &kind.Op{Kind: k, What: kv.OpLook, Reading: &kind.Reading{Scope: kind.Scope{All: i.whole(k), ReadOnly: true}}}
	}
	return i.ops[k]
}

// Add takes in nodes, sorted by key.
func (i *Inspections) Add(nodes []*graph.Node) {
	for _, n := range nodes {
		k := kind.Of(n)
		if k == nil || k.Retrieve == nil || n.Dropped() {
			continue
		}
		o := i.op(k)
		switch {
		case !o.Scope.All:
			o.Scope.Keys = append(o.Scope.Keys, n.Key)
			o.Scope.Known = append(o.Scope.Known, kind.KnownNode(n))
		case n.Actual != nil || n.Goal() != nil:
			o.Scope.Known = append(o.Scope.Known, kind.KnownNode(n))
		}
	}
}

// Ops are the reads, in the order of the kinds.
func (i *Inspections) Ops() (out []*kind.Op) {
	for _, o := range i.ops {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b *kind.Op) int { return strings.Compare(string(a.Kind.Prefix), string(b.Kind.Prefix)) })
	return out
}

// Inspected are the statuses of nodes by what was found there. It takes out of found what
// the nodes are.
func (e *Explainer) Inspected(nodes []*graph.Node, found map[kv.Key]kind.Found, failed map[kv.Key]error) []kv.Status {
	var out []kv.Status
	status := e.Statuses()
	for _, n := range nodes {
		if n.Dropped() {
			continue
		}
		k := kind.Of(n)
		f, there := found[n.Key]
		s := status(n)
		s.Derived = nil // they depend on their own here
		err := failed[n.Key]
		if err == nil && k != nil {
			err = failed[k.Prefix]
		}
		switch {
		case k == nil || k.Retrieve == nil:
		case n.Busy():
			s.Grade, s.Owner = e.gradeBusy(n, &s)
		case err != nil:
			s.State, s.Reason = kv.Unknown, kv.FirstLine(err)
		case n.Wanted():
			e.compareFound(n, k, f, there, &s)
		case there:
			if s.State == kv.Absent || s.State == kv.Removed {
				continue // it has come since, like what nobody knew of
			}
			e.extra(n, k, f, &s)
		default:
			s.State, s.Actual, s.Meta = kv.Absent, nil, nil
		}
		delete(found, n.Key)
		if s.State != kv.Absent && s.State != kv.Removed {
			out = append(out, s)
		}
	}
	return out
}

// Unknown are the statuses of what was found and nobody knew of.
func (e *Explainer) Unknown(prefixes, keys []kv.Key, found map[kv.Key]kind.Found, failed map[kv.Key]error) []kv.Status {
	var out []kv.Status
	for _, key := range keys {
		f, k := found[key], e.Kinds.Find(key)
		if k == nil || !kv.Under(key, prefixes) {
			continue
		}
		if n := e.G.Get(key); n != nil { // it has come since
			out = append(out, e.Inspected([]*graph.Node{n}, found, failed)...)
			continue
		}
		s := kv.Status{Key: key, Kind: k.Name, State: kv.Observed}
		if !f.Foreign && !k.Observed {
			s.State, s.Reason = kv.Leftover, "it bears our mark and is not in the intent"
			if f.Owner != "" {
				s.Reason = "not in the intent"
			}
		}
		e.extra(nil, k, f, &s)
		out = append(out, s)
	}
	return out
}

// extra describes what is there and not wanted; n is nil if nobody knew of it. What nobody
// may delete is no drift: it is where nothing of ours is.
func (e *Explainer) extra(n *graph.Node, k *kind.Kind, f kind.Found, s *kv.Status) {
	s.Actual, s.Meta = k.Show(f.Value), f.Meta
	if s.State == kv.Unknown && !f.Foreign && !k.Observed {
		s.State, s.Reason = kv.Leftover, "not in the intent"
	}
	if s.State != kv.Leftover {
		return
	}
	switch s.Owner = f.Owner; {
	case s.Owner != "":
		s.Grade, s.Reason = kv.GradeForeign, "made by "+s.Owner+"; "+s.Reason
	case n != nil && e.PausedBy(n) != nil:
		s.Grade = kv.GradeAlert
	default:
		s.Grade = kv.GradeRepair
	}
}

// compareFound puts what was found beside what is wanted.
func (e *Explainer) compareFound(n *graph.Node, k *kind.Kind, f kind.Found, there bool, s *kv.Status) {
	s.Actual, s.Meta = nil, nil
	if there {
		s.Actual, s.Meta = k.Show(f.Value), f.Meta
	}
	goal := n.Goal()
	if goal == nil || s.State == kv.InvalidState || s.State == kv.Unimplemented {
		return
	}
	differs, done := "it is not there", "removed"
	if there {
		var v kv.Verdict
		if !e.Guard(n, func() { v = e.Verdict(n, k, f.Value, goal) }) {
			return
		}
		if differs, done = "", "changed"; v.Change != kv.Same {
			differs = "the actual state differs: " + v.Reason
		}
	}
	if by := changedBy(n); differs != "" && by != "" {
		differs += "; " + done + " by " + by
	}
	lost := there && f.Foreign && n.Presence == graph.Present && !n.Foreign
	if lost {
		differs = "what is there is not ours"
	}
	e.tellFound(n, s, there, differs)
	if differs == "" && !n.Foreign {
		return
	}
	if s.Grade, s.Owner = e.grade(n, s, there); s.State == kv.Paused && s.Grade != kv.NoDrift {
		s.Reason += "; " + differs
	}
	if lost && s.Grade != kv.NoDrift {
		s.Grade, s.Owner = kv.GradeForeign, cmp.Or(f.Owner, "somebody else")
	}
}

// tellFound is the state by what a fresh read found, where the one that is believed says
// less.
func (e *Explainer) tellFound(n *graph.Node, s *kv.Status, there bool, differs string) {
	switch {
	case n.Foreign:
	case differs == "" && (s.State == kv.Unknown || s.State == kv.Drifted || s.State == kv.Configured):
		s.State, s.Reason = kv.Configured, ""
	case s.State == kv.Unknown && n.Needs() == graph.Satisfied:
		s.State, s.Reason = kv.Drifted, differs
	case differs == "" || s.State != kv.Configured && s.State != kv.Drifted && s.State != kv.Pending:
	case !there:
		if n.Presence == graph.Present {
			s.State, s.Reason = kv.Drifted, differs
		}
	case s.Drift == kv.DriftIgnore:
		s.State, s.Reason = kv.Configured, strings.Replace(differs, ":", ", which its policy ignores:", 1)
	default:
		s.State, s.Reason = kv.Drifted, differs
	}
}

// grade says what sort of drift it is that a wanted key differs, and who made what is in
// its way; there reports whether anything of it was found. What waits for its needs is not
// built, or is to go, which is no drift; what is in place stands also while a need of it is
// held. Nor is it drift that what cannot be made is not there.
func (e *Explainer) grade(n *graph.Node, s *kv.Status, there bool) (g kv.Grade, owner string) {
	if needs := n.Needs(); needs == graph.Missing || needs == graph.Unsure && n.Presence == graph.Absent {
		return kv.NoDrift, ""
	}
	switch s.State {
	case kv.Paused:
		return kv.GradeAlert, ""
	case kv.Failed, kv.Retrying:
		var class *kv.OpError
		if n.X != nil && errors.As(n.X.Err, &class) && class.Owner != "" {
			return kv.GradeForeign, class.Owner
		}
		if !there && assess.ActualOf(n) == nil && !assess.Has(n, assess.FlagDrifted) {
			return kv.NoDrift, ""
		}
		return kv.GradeRepair, ""
	case kv.Pending:
		if !assess.Has(n, assess.FlagDrifted) {
			return kv.NoDrift, "" // what is wanted has changed, not what is there
		}
	case kv.Configured, kv.Drifted:
	default:
		return kv.NoDrift, ""
	}
	switch {
	case n.Foreign:
		return kv.NoDrift, "" // it was taken for ours as it is
	case s.Drift == kv.DriftAlert:
		return kv.GradeAlert, ""
	case s.Drift == kv.DriftIgnore:
		return kv.GradeIgnore, ""
	}
	return kv.GradeRepair, ""
}

// gradeBusy is for a key at which an operation is: what was read beside it may be either.
func (e *Explainer) gradeBusy(n *graph.Node, s *kv.Status) (kv.Grade, string) {
	switch {
	case n.Wanted():
		if s.State == kv.Configured { // it is only read
			return kv.NoDrift, ""
		}
		return e.grade(n, s, false)
	case s.State == kv.Leftover:
		return kv.GradeRepair, ""
	}
	return kv.NoDrift, ""
}
