package scheduler

import (
	"maps"
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

// activate fills the view; it runs in the loop.
func (e *engine) activate(k *kind) {
	if k.view.active.Load() {
		return
	}
	k.view.mu.Lock()
	k.view.entries = map[Key]viewEntry{}
	k.view.mu.Unlock()
	e.g.Below(k.Prefix, func(n *graph.Node) bool { k.view.set(n); return true })
	k.view.active.Store(true)
}

func (s *Scheduler) look(k *kind, key Key) (viewEntry, bool) {
	if !k.view.active.Load() && s.call(func(l *loop) { l.activate(k) }) != nil {
		return viewEntry{}, false
	}
	k.view.mu.RLock()
	defer k.view.mu.RUnlock()
	l, ok := k.view.entries[key]
	return l, ok
}

func (s *Scheduler) lookAll(k *kind) map[Key]viewEntry {
	if !k.view.active.Load() && s.call(func(l *loop) { l.activate(k) }) != nil {
		return nil
	}
	k.view.mu.RLock()
	defer k.view.mu.RUnlock()
	return maps.Clone(k.view.entries)
}
