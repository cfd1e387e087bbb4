package apitest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/scheduler"
)

// watcher keeps the last state of each key that was not read yet.
type watcher struct {
	engine   *Engine
	prefixes []scheduler.Key

	mu     sync.Mutex // guards what follows
	unread map[scheduler.Key]scheduler.Status
	fresh  bool // the first picture was not read yet
	wake   chan struct{}
}

// Watch implements the port.
func (e *Engine) Watch(prefixes ...scheduler.Key) api.Watcher {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := &watcher{engine: e, prefixes: prefixes, unread: map[scheduler.Key]scheduler.Status{}, fresh: true, wake: make(chan struct{}, 1)}
	for _, st := range e.selected(prefixes) {
		w.unread[st.Key] = st
	}
	w.nudge()
	e.watchers = append(e.watchers, w)
	return w
}

// Watchers counts those who watch.
func (e *Engine) Watchers() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.watchers)
}

func (w *watcher) tell(st scheduler.Status) {
	if !matches(w.prefixes, st.Key) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread[st.Key] = st
	w.nudge()
}

func (w *watcher) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Next implements the port.
func (w *watcher) Next(ctx context.Context) ([]scheduler.Status, bool, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-w.wake:
		}
		w.mu.Lock()
		if len(w.unread) > 0 || w.fresh {
			var out []scheduler.Status
			for _, k := range slices.Sorted(maps.Keys(w.unread)) {
				out = append(out, w.unread[k])
			}
			clear(w.unread)
			w.fresh = false
			w.mu.Unlock()
			return out, true, nil
		}
		w.mu.Unlock()
	}
}

// Stop implements the port.
func (w *watcher) Stop() {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	w.engine.watchers = slices.DeleteFunc(w.engine.watchers, func(x *watcher) bool { return x == w })
}
