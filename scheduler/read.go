package scheduler

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/plumb-net/plumb/scheduler/explain"
	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// Get returns the status of one key. The error is ErrUnknownKey when there is
// none, or ErrStopped. ctx is not looked at: Get does not wait for long.
func (s *Scheduler) Get(ctx context.Context, k Key) (Status, error) {
	var st Status
	found := false
	err := s.call(func(l *loop) {
		if n := l.G.Get(k); n != nil {
			st, found = l.explainer.Statuses()(n), true
		}
	})
	if err == nil && (!found || st.State == Absent) {
		err = fmt.Errorf("%s: %w", k, ErrUnknownKey)
	}
	return st, err
}

// Derived are the keys of the values that a value splits off, and of those that these do,
// as far as their kinds are registered. It says nothing about what is wanted or there. The
// error is ErrStopped.
func (s *Scheduler) Derived(k Key, value any) (out []Key, err error) {
	err = s.call(func(l *loop) {
		for _, d := range l.Kinds.Derived(k, value) {
			out = append(out, d.Key)
		}
	})
	return out, err
}

const pageSize = 1024

// Statuses yields the statuses of the keys under any of the prefixes, sorted; a
// prefix that does not end in a slash is one key, none means all. Keys that
// are only needed and not there are left out. The picture is taken in pages,
// so that a long list holds up nobody; each status is true at its time. ctx is
// looked at between pages. An error is the last that comes: ctx.Err() or ErrStopped.
func (s *Scheduler) Statuses(ctx context.Context, prefixes ...Key) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		nodes, err := s.nodesUnder(prefixes)
		if err != nil {
			yield(Status{}, err)
			return
		}
		s.statuses(ctx, nodes, yield)
	}
}

// List returns all that Statuses yields.
func (s *Scheduler) List(ctx context.Context, prefixes ...Key) ([]Status, error) {
	nodes, err := s.nodesUnder(prefixes)
	if err != nil {
		return nil, err
	}
	out := make([]Status, 0, len(nodes))
	s.statuses(ctx, nodes, func(st Status, failed error) bool {
		if err = failed; err == nil {
			out = append(out, st)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Scheduler) nodesUnder(prefixes []Key) (nodes []*graph.Node, err error) {
	err = s.call(func(l *loop) { nodes = l.NodesUnder(prefixes) })
	return nodes, err
}

func (s *Scheduler) statuses(ctx context.Context, nodes []*graph.Node, yield func(Status, error) bool) {
	read := make([]Status, 0, min(pageSize, len(nodes)))
	for page := range slices.Chunk(nodes, pageSize) {
		err := ctx.Err()
		if err == nil {
			read = read[:0]
			err = s.call(func(l *loop) {
				status := l.explainer.Statuses()
				for _, n := range page {
					if n.Dropped() {
						continue
					}
					if st := status(n); st.State != Absent && st.State != Removed {
						read = append(read, st)
					}
				}
			})
		}
		if err != nil {
			yield(Status{}, err)
			return
		}
		for _, st := range read {
			if !yield(st, nil) {
				return
			}
		}
	}
}

// Edge is one need, or derivation, as it stands.
type Edge struct {
	From, To  Key // To ends in a star for a prefix
	Why       string
	Derived   bool // From is derived from To
	Satisfied bool
}

// Edges returns the dependency edges of what is wanted, for drawing, sorted by
// From. The only error is ErrStopped; ctx is not looked at.
func (s *Scheduler) Edges(ctx context.Context) ([]Edge, error) {
	var out []Edge
	err := s.call(func(l *loop) {
		for _, n := range l.NodesUnder(nil) {
			for _, edge := range n.Out {
				if edge.OfDesired() {
					out = append(out, Edge{From: n.Key, To: Key(edge.Target()), Why: edge.Why,
						Derived: edge.OfBase(), Satisfied: edge.State == graph.Satisfied})
				}
			}
		}
	})
	return out, err
}

// SourceState tells how a source stands.
type SourceState struct {
	Name   string
	Synced bool // has sent a complete snapshot
	Keys   int
}

// Sources tells which sources have synced, the strongest first. The only error is
// ErrStopped; ctx is not looked at.
func (s *Scheduler) Sources(ctx context.Context) ([]SourceState, error) {
	var out []SourceState
	err := s.call(func(l *loop) {
		for _, src := range l.Sources {
			out = append(out, SourceState{Name: src.Name, Synced: src.Synced})
		}
		l.G.All(func(n *graph.Node) bool {
			for i := range out {
				if engine.Wants(n, int8(i)) {
					out[i].Keys++
				}
			}
			return true
		})
	})
	return out, err
}

// Inspect reads the actual state anew and tells how it compares with what is wanted;
// it changes nothing and repairs nothing. The statuses are those of the keys
// under the prefixes, each on its own, with what was found as Actual: drifted
// where what is there is not as wanted, unknown where it could not be read. The
// reading is done by the caller's goroutine, one kind after another, with ctx. A
// read that fails is no error of Inspect: that is ctx.Err() or ErrStopped.
func (s *Scheduler) Inspect(ctx context.Context, prefixes ...Key) ([]Status, error) {
	var reads []*kind.Op
	if err := s.call(func(l *loop) { reads = l.explainer.Inspections(prefixes) }); err != nil {
		return nil, err
	}
	for _, o := range reads {
		kind.RunLook(ctx, o)
	}
	var out []Status
	err := s.call(func(l *loop) {
		found := map[Key]kind.Found{}
		failed := map[Key]error{}
		for _, o := range reads {
			for _, f := range o.Found {
				found[f.Key] = f
			}
			for k, err := range o.Unread {
				failed[k] = err
			}
			if o.Err != nil {
				failed[o.Kind.Prefix] = o.Err
			}
		}
		out = l.explainer.Inspected(prefixes, found, failed)
	})
	if err == nil {
		err = ctx.Err()
	}
	return out, err
}

// Why explains a key: how it stands, and below each missing need how the
// needed thing stands, down to the root. It names at most a hundred keys. The
// error is ErrUnknownKey for a key that is not wanted, not needed and not
// there, or ErrStopped; ctx is not looked at.
func (s *Scheduler) Why(ctx context.Context, k Key) (Cause, error) {
	var c Cause
	found := false
	err := s.call(func(l *loop) {
		n := l.G.Get(k)
		if n == nil {
			return
		}
		found = true
		l.NewPass()
		budget := explain.MaxCauses
		c = l.explainer.Why(n, map[*graph.Node]bool{}, &budget)
		c.Roots = l.explainer.Roots(n)
		c.Record = l.Hist.LastOf(k)
		if c.Record == nil {
			c.Record = l.Hist.Get(n.Cause)
		}
	})
	if c.Record != nil {
		c.Chain = s.hist.Chain(k, c.Record)
		if c.Status.State == Configured {
			c.Again = s.hist.Again(k, c.Record)
		}
	}
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", k, ErrUnknownKey)
	}
	return c, err
}
