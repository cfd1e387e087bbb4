package scheduler

import (
	"sync"
	"sync/atomic"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// view is what others may read of a kind without asking the loop. It costs
// nothing until somebody reads the kind for the first time.
type view struct {
	active  atomic.Bool
	mu      sync.RWMutex
	entries map[Key]viewEntry
	indexes []func(k Key, e viewEntry) // told of every key that changes
}

type viewEntry struct {
	actual, meta, desired any
	inPlace               bool
}

func (v *view) set(n *graph.Node) {
	e := viewEntry{actual: n.Actual, meta: n.Meta, desired: n.Goal(), inPlace: n.Presence == graph.Present}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, tell := range v.indexes {
		tell(n.Key, e)
	}
	if !e.inPlace && e.desired == nil {
		delete(v.entries, n.Key)
		return
	}
	v.entries[n.Key] = e
}

// close: the kind is unregistered, and what is there of it is no longer known.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for k := range v.entries {
		for _, tell := range v.indexes {
			tell(k, viewEntry{})
		}
	}
	v.entries = map[Key]viewEntry{}
	v.active.Store(true) // there is nothing to fill it with
}
