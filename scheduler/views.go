package scheduler

import (
	"maps"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// activate fills the view; it runs in the loop.
func (l *loop) activate(k *kind) {
	if k.view.active.Load() {
		return
	}
	k.view.mu.Lock()
	k.view.entries = map[Key]viewEntry{}
	k.view.mu.Unlock()
	l.g.Below(k.Prefix, func(n *graph.Node) bool { k.view.set(n); return true })
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
