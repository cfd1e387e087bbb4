package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

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

// pageSize is how many statuses are made in the loop at a time: that takes about a
// millisecond. partSize is how many nodes are only looked at.
const pageSize, partSize = 256, 1 << 14

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

// nodesUnder finds the nodes under the prefixes, sorted. The loop does no more than collect
// them, some at a time.
func (s *Scheduler) nodesUnder(prefixes []Key) ([]*graph.Node, error) {
	var found []keyed
	add := func(n *graph.Node) { found = append(found, keyed{n.Key, n}) }
	var err error
	if len(prefixes) == 0 {
		err = s.eachNode(add)
	} else {
		err = s.call(func(l *loop) { l.EachUnder(prefixes, add) })
	}
	return sorted(found), err
}

// keyed is a node with its key: outside of the loop nothing of a node may be read.
type keyed struct {
	key  Key
	node *graph.Node
}

func sorted(found []keyed) []*graph.Node {
	slices.SortFunc(found, func(a, b keyed) int { return strings.Compare(string(a.key), string(b.key)) })
	nodes := make([]*graph.Node, len(found))
	for i, f := range found {
		nodes[i] = f.node
	}
	return slices.Compact(nodes)
}

// eachNode calls f for every node, in the loop, some at a time.
func (s *Scheduler) eachNode(f func(*graph.Node)) error {
	for part := 0; part < graph.Parts; {
		if err := s.call(func(l *loop) {
			for n := 0; part < graph.Parts && n < partSize; part++ {
				n += l.G.Part(part, f)
			}
		}); err != nil {
			return err
		}
	}
	return nil
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

// edgesPage is of how many nodes Edges reads the edges at a time.
const edgesPage = 4096

// Edge is one need, or derivation, as it stands.
type Edge struct {
	From, To  Key // To ends in a star for a prefix
	Why       string
	Derived   bool // From is derived from To
	Satisfied bool
}

// Edges returns the dependency edges of what is wanted, for drawing, sorted by
// From. They are read in pages, as in Statuses. The error is ctx.Err() or ErrStopped.
func (s *Scheduler) Edges(ctx context.Context) ([]Edge, error) {
	nodes, err := s.nodesUnder(nil)
	if err != nil {
		return nil, err
	}
	var out []Edge
	for page := range slices.Chunk(nodes, edgesPage) {
		if err := cmp.Or(ctx.Err(), s.call(func(l *loop) {
			for _, n := range page {
				for _, edge := range n.Out {
					if edge.OfDesired() && !n.Dropped() {
						out = append(out, Edge{From: n.Key, To: Key(edge.Target()), Why: edge.Why,
							Derived: edge.OfBase(), Satisfied: edge.State == graph.Satisfied})
					}
				}
			}
		})); err != nil {
			return nil, err
		}
	}
	return out, nil
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
	})
	if err == nil {
		err = s.eachNode(func(n *graph.Node) {
			for i := range out {
				if engine.Wants(n, int8(i)) {
					out[i].Keys++
				}
			}
		})
	}
	return out, err
}

// Inspect reads the actual state anew and tells how it compares with what is wanted;
// it changes nothing and repairs nothing. The statuses are those of the keys
// under the prefixes, each on its own, with what was found as Actual: drifted
// where what is there is not as wanted, unknown where it could not be read. The
// reading is done by the caller's goroutine, one kind after another, with ctx. A
// read that fails is no error of Inspect: that is ctx.Err() or ErrStopped.
func (s *Scheduler) Inspect(ctx context.Context, prefixes ...Key) ([]Status, error) {
	var inspections *explain.Inspections
	nodes, err := s.nodesUnder(prefixes)
	if err == nil {
		err = s.call(func(l *loop) { inspections = l.explainer.NewInspections(prefixes) })
	}
	if err == nil {
		err = inPages(s, nodes, func(_ *loop, page []*graph.Node) { inspections.Add(page) })
	}
	if err != nil {
		return nil, err
	}
	found, failed := map[Key]kind.Found{}, map[Key]error{}
	for _, o := range inspections.Ops() {
		kind.RunLook(ctx, o)
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
	var out []Status
	if nodes, err = s.nodesUnder(prefixes); err != nil {
		return nil, err
	}
	if err = inPages(s, nodes, func(l *loop, page []*graph.Node) {
		out = append(out, l.explainer.Inspected(page, found, failed)...)
	}); err != nil {
		return nil, err
	}
	for page := range slices.Chunk(slices.Collect(maps.Keys(found)), pageSize) {
		if err := s.call(func(l *loop) { out = append(out, l.explainer.Unknown(prefixes, page, found, failed)...) }); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return out, ctx.Err()
}

// inPages calls f in the loop with some of the nodes at a time.
func inPages(s *Scheduler, nodes []*graph.Node, f func(l *loop, page []*graph.Node)) error {
	for page := range slices.Chunk(nodes, pageSize) {
		if err := s.call(func(l *loop) { f(l, page) }); err != nil {
			return err
		}
	}
	return nil
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
