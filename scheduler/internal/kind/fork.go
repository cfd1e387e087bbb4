package kind

import (
	"github.com/plumb-net/plumb/scheduler/internal/graph"
)

// Fork returns a copy of the registry with copies of all kinds, and a function that finds the
// copy of a kind. A copy has no view and reads nothing.
func (ks *Registry) Fork() (*Registry, func(*graph.Kind) *graph.Kind) {
	out := &Registry{byPrefix: make(map[string]*Kind, len(ks.byPrefix)), depth: ks.depth}
	copies := make(map[*graph.Kind]*graph.Kind, len(ks.sorted))
	for _, k := range ks.sorted {
		c := k.fork()
		out.byPrefix[string(k.Prefix)] = c
		out.sorted = append(out.sorted, c)
		copies[&k.Kind] = &c.Kind
	}
	return out, func(k *graph.Kind) *graph.Kind { return copies[k] }
}

func (k *Kind) fork() *Kind {
	c := &Kind{
		Kind: k.Kind, Capabilities: k.Capabilities, ReadAfter: k.ReadAfter,
		CheckType: k.CheckType, Validate: k.Validate, Compare: k.Compare, Identical: k.Identical, SameMeta: k.SameMeta,
		Derive: k.Derive, Lane: k.Lane, Secrets: k.Secrets, Disruption: k.Disruption, Timeout: k.Timeout,
		Size: k.Size, Sized: k.Sized, Encode: k.Encode, Decode: k.Decode,
		Create: k.Create, Update: k.Update, Release: k.Release, Remove: k.Remove, GivesBack: k.GivesBack, CreateBatch: k.CreateBatch, DeleteBatch: k.DeleteBatch,
		Creations: k.Creations, Deletions: k.Deletions, Retrieve: k.Retrieve, Watch: k.Watch, ChangedBy: k.ChangedBy, Interest: k.Interest,
		Look: k.Look, Drift: k.Drift, original: k,
	}
	c.Impl = c
	c.Look.Queued, c.Look.Waiting = nil, nil
	return c
}

// Original is the kind that k is a copy of, or k.
func (k *Kind) Original() *Kind {
	if k == nil || k.original == nil {
		return k
	}
	return k.original
}
