package apitest

import (
	"context"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/scheduler"
)

// watcher keeps the last state of each key that was not read yet. The engine's
// lock guards it.
type watcher struct {
	engine   *Engine
	prefixes []scheduler.Key
	unread   map[scheduler.Key]scheduler.Status
	fresh    bool // the first picture was not read yet
	idle     bool // its reader waits for more
	wake     chan struct{}
}

// Watch implements the port.
func (e *Engine) Watch(prefixes ...scheduler.Key) api.Watcher {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := &watcher{engine: e, prefixes: prefixes, unread: map[scheduler.Key]scheduler.Status{}, fresh: true, wake: make(chan struct{}, 1)}
	for _, st := range e.selected(prefixes) {
		w.unread[st.Key] = st
	}
	e.watchers = append(e.watchers, w)
	e.moved.Broadcast()
	return w
}

// Await blocks until so many watch.
func (e *Engine) Await(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.watchers) != n {
		e.moved.Wait()
	}
}

// AwaitRead blocks until all who watch have read everything and wait for more,
// and tells how many they are.
func (e *Engine) AwaitRead() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for slices.ContainsFunc(e.watchers, func(w *watcher) bool { return !w.idle }) {
		e.moved.Wait()
	}
	return len(e.watchers)
}

// tell is called with the engine's lock.
func (w *watcher) tell(st scheduler.Status) {
	if !matches(w.prefixes, st.Key) {
		return
	}
	w.unread[st.Key], w.idle = st, false
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Next implements the port.
func (w *watcher) Next(ctx context.Context) ([]scheduler.Status, bool, error) {
	for {
		if out, ok := w.read(); ok {
			return out, true, nil
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-w.wake:
		}
	}
}

// read takes what is unread.
func (w *watcher) read() (out []scheduler.Status, ok bool) {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	if len(w.unread) == 0 && !w.fresh {
		w.idle = true
		w.engine.moved.Broadcast()
		return nil, false
	}
	for _, k := range slices.Sorted(maps.Keys(w.unread)) {
		out = append(out, w.unread[k])
	}
	clear(w.unread)
	w.fresh = false
	return out, true
}

// Stop implements the port.
func (w *watcher) Stop() {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	w.engine.watchers = slices.DeleteFunc(w.engine.watchers, func(x *watcher) bool { return x == w })
	w.engine.moved.Broadcast()
}
