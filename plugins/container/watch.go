package container

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// maxPending is how many changed keys are kept for a watcher that does not
// take them; beyond that it is told that anything may have changed.
const maxPending = 4096

// watchers are those who want to hear of changes.
type watchers struct {
	mu  sync.Mutex
	all map[*watcher]bool
}

// watcher collects changed keys until its owner takes them.
type watcher struct {
	wake    chan struct{}
	mu      sync.Mutex
	pending map[string]bool
	all     bool
}

// Watch calls f with the keys that changed ("microservice/web",
// "container/docker:<id>"), and without keys when any may have, first of all
// at once. It returns when ctx ends. Changes that come while f runs are joined
// into its next call, so a slow f sees the last state and delays nobody.
func (t *Tracker) Watch(ctx context.Context, f func(keys ...string)) error {
	w := &watcher{wake: make(chan struct{}, 1), pending: map[string]bool{}}
	t.watchers.add(w)
	defer t.watchers.remove(w)
	w.add(nil, true)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
		}
		if keys, any := w.take(); any {
			f(keys...)
		}
	}
}

func (ws *watchers) add(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all == nil {
		ws.all = map[*watcher]bool{}
	}
	ws.all[w] = true
}

func (ws *watchers) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
}

// tell notes changed keys for every watcher, or that any key may have changed.
func (ws *watchers) tell(keys []string, all bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		w.add(keys, all)
	}
}

func (w *watcher) add(keys []string, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range keys {
		w.pending[k] = true
	}
	if all || len(w.pending) > maxPending {
		w.all = true
	}
	if w.all {
		clear(w.pending)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns what gathered; no keys with any true means all keys.
func (w *watcher) take() (keys []string, any bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys = slices.Sorted(maps.Keys(w.pending))
	any = w.all || len(keys) > 0
	w.all = false
	clear(w.pending)
	return keys, any
}
