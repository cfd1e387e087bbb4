package api

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// Graph implements the service.
func (s *Server) Graph(ctx context.Context, r *apiv1.GraphRequest) (*apiv1.GraphResponse, error) {
	edges, err := s.Scheduler.Edges(ctx)
	if err != nil {
		return nil, fail(err)
	}
	all, err := s.Scheduler.List(ctx)
	if err != nil {
		return nil, fail(err)
	}
	state := map[string]string{}
	for _, st := range flat(all) {
		state[string(st.Key)] = st.State.String()
	}
	if r.Around != "" {
		if _, err := s.get(ctx, r.Around); err != nil {
			return nil, err
		}
		depth := int(r.Depth)
		if depth == 0 {
			depth = 2
		}
		edges = around(edges, scheduler.Key(r.Around), depth)
		state = only(state, r.Around, edges)
	}
	return graph(state, edges), nil
}

// around keeps the edges up to depth away from a key, in either direction.
func around(edges []scheduler.Edge, key scheduler.Key, depth int) []scheduler.Edge {
	at := map[scheduler.Key][]int{}
	for i, e := range edges {
		at[e.From] = append(at[e.From], i)
		at[e.To] = append(at[e.To], i)
	}
	near, ring := map[int]bool{}, []scheduler.Key{key}
	seen := map[scheduler.Key]bool{key: true}
	for range depth {
		var next []scheduler.Key
		for _, k := range ring {
			for _, i := range at[k] {
				near[i] = true
				for _, n := range []scheduler.Key{edges[i].From, edges[i].To} {
					if !seen[n] {
						seen[n] = true
						next = append(next, n)
					}
				}
			}
		}
		ring = next
	}
	var out []scheduler.Edge
	for _, i := range slices.Sorted(maps.Keys(near)) {
		out = append(out, edges[i])
	}
	return out
}

// only keeps the states of the key and of what the edges name.
func only(state map[string]string, key string, edges []scheduler.Edge) map[string]string {
	out := map[string]string{key: state[key]}
	for _, e := range edges {
		out[string(e.From)] = state[string(e.From)]
		out[string(e.To)] = state[string(e.To)]
	}
	return out
}

// graph sorts nodes and edges. What is needed and nowhere is absent; a prefix
// stands for any key below.
func graph(state map[string]string, edges []scheduler.Edge) *apiv1.GraphResponse {
	out := new(apiv1.GraphResponse)
	for _, e := range edges {
		to := string(e.To)
		if state[to] == "" {
			state[to] = "absent"
			if strings.HasSuffix(to, "*") {
				state[to] = "any"
			}
		}
		out.Edges = append(out.Edges, &apiv1.GraphEdge{From: string(e.From), To: to, Why: e.Why, Derived: e.Derived, Satisfied: e.Satisfied})
	}
	for _, k := range slices.Sorted(maps.Keys(state)) {
		out.Nodes = append(out.Nodes, &apiv1.GraphNode{Key: k, State: state[k]})
	}
	slices.SortStableFunc(out.Edges, func(a, b *apiv1.GraphEdge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return out
}
