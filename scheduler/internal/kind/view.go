package kind

import (
	"sync"
	"sync/atomic"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// view is what others may read of a kind without asking the loop. It costs
// nothing until somebody reads the kind for the first time.
type view struct {
	Active  atomic.Bool
	Mu      sync.RWMutex
	Entries map[kv.Key]ViewEntry
	Indexes []func(k kv.Key, e ViewEntry) // told of every key that changes
}

// ViewEntry is what a view tells of a key.
type ViewEntry struct {
	Actual, Meta, Desired any
	InPlace               bool
}

// Set takes in how a node stands; it runs in the loop.
func (v *view) Set(n *graph.Node) {
	e := ViewEntry{Actual: n.Actual, Meta: n.Meta, Desired: n.Goal(), InPlace: n.Presence == graph.Present}
	v.Mu.Lock()
	defer v.Mu.Unlock()
	for _, tell := range v.Indexes {
		tell(n.Key, e)
	}
	if !e.InPlace && e.Desired == nil {
		delete(v.Entries, n.Key)
		return
	}
	v.Entries[n.Key] = e
}

// Close: the kind is unregistered, and what is there of it is no longer known.
func (v *view) Close() {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	for k := range v.Entries {
		for _, tell := range v.Indexes {
			tell(k, ViewEntry{})
		}
	}
	v.Entries = map[kv.Key]ViewEntry{}
	v.Active.Store(true) // there is nothing to fill it with
}
