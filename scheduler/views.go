package scheduler

import (
	"maps"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// activate fills the view; it runs in the loop.
func (l *loop) activate(k *kind.Kind) {
	if k.View.Active.Load() {
		return
	}
	k.View.Mu.Lock()
	k.View.Entries = map[Key]kind.ViewEntry{}
	k.View.Mu.Unlock()
	l.G.Below(k.Prefix, func(n *graph.Node) bool { k.View.Set(n); return true })
	k.View.Active.Store(true)
}

func (s *Scheduler) look(k *kind.Kind, key Key) (kind.ViewEntry, bool) {
	if !k.View.Active.Load() && s.call(func(l *loop) { l.activate(k) }) != nil {
		return kind.ViewEntry{}, false
	}
	k.View.Mu.RLock()
	defer k.View.Mu.RUnlock()
	l, ok := k.View.Entries[key]
	return l, ok
}

func (s *Scheduler) lookAll(k *kind.Kind) map[Key]kind.ViewEntry {
	if !k.View.Active.Load() && s.call(func(l *loop) { l.activate(k) }) != nil {
		return nil
	}
	k.View.Mu.RLock()
	defer k.View.Mu.RUnlock()
	return maps.Clone(k.View.Entries)
}
