package scheduler

import (
	"context"
	"sync"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Watcher is a coalescing view of statuses: a slow reader skips states in
// between, never the last, and slows nobody.
type Watcher struct {
	s        *Scheduler
	prefixes []Key
	wake     chan struct{}
	once     sync.Once
	stopped  chan struct{}

	// owned by the loop
	bit    int // its place among the watchers, -1 for none
	queue  []*graph.Node
	synced bool
}

const watchBatch = 256

// Watch follows statuses: first those of all keys under the prefixes (none
// means all), then every change, coalesced per key. A prefix that does not end
// in a slash is one key. Stop it when done. There is room for 64 watchers; the
// Next of one too many returns ErrTooManyWatchers. One goroutine reads a watcher.
func (s *Scheduler) Watch(prefixes ...Key) *Watcher {
	w := &Watcher{s: s, prefixes: prefixes, wake: make(chan struct{}, 1), stopped: make(chan struct{}), bit: -1}
	_ = s.call(func(l *loop) { l.addWatcher(w) })
	return w
}

// Next blocks until there are changes and returns some of them, at most 256.
// inSync is set from the batch on that completes the first picture. It returns
// ctx.Err(), ErrWatcherStopped, ErrTooManyWatchers or ErrStopped.
func (w *Watcher) Next(ctx context.Context) (changes []Status, inSync bool, err error) {
	for {
		first := false
		select {
		case <-w.stopped:
			return nil, false, ErrWatcherStopped
		default:
		}
		if err := w.s.call(func(l *loop) {
			if w.bit >= 0 {
				changes, inSync, first = l.drain(w)
			}
		}); err != nil {
			return nil, false, err
		}
		if w.bit < 0 {
			return nil, false, ErrTooManyWatchers
		}
		if len(changes) > 0 || first {
			return changes, inSync, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, inSync, ctx.Err()
		case <-w.stopped:
			return nil, inSync, ErrWatcherStopped
		case <-w.s.stopped:
			return nil, inSync, ErrStopped
		}
	}
}

// Stop ends the watcher; Next returns an error from then on.
func (w *Watcher) Stop() {
	w.once.Do(func() {
		close(w.stopped)
		_ = w.s.call(func(l *loop) { l.removeWatcher(w) })
	})
}

func (l *loop) addWatcher(w *Watcher) {
	for bit, other := range l.watchers {
		if other == nil {
			w.bit, l.watchers[bit] = bit, w
			l.watching++
			break
		}
	}
	if w.bit < 0 {
		return
	}
	for _, n := range l.NodesUnder(w.prefixes) {
		l.queueFor(w, n)
	}
}

func (l *loop) removeWatcher(w *Watcher) {
	if w.bit < 0 {
		return
	}
	for _, n := range w.queue {
		n.Watchers &^= 1 << w.bit
	}
	l.watchers[w.bit], w.queue = nil, nil
	l.watching--
}

func (l *loop) queueFor(w *Watcher, n *graph.Node) {
	if n.Watchers&(1<<w.bit) == 0 {
		n.Watchers |= 1 << w.bit
		w.queue = append(w.queue, n)
	}
}

// notifyWatchers queues the node with everybody who wants to know.
func (l *loop) notifyWatchers(n *graph.Node) {
	if l.watching == 0 {
		return
	}
	for _, w := range l.watchers {
		if w != nil && kv.Under(n.Key, w.prefixes) {
			l.queueFor(w, n)
		}
	}
}

// wakeReaders tells watchers with something queued, at the end of a turn.
func (l *loop) wakeReaders() {
	if l.watching == 0 {
		return
	}
	for _, w := range l.watchers {
		if w != nil && len(w.queue) > 0 {
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	}
}

func (l *loop) drain(w *Watcher) (out []Status, inSync, first bool) {
	n := min(len(w.queue), watchBatch)
	l.NewPass()
	out = make([]Status, 0, n)
	for _, node := range w.queue[:n] {
		node.Watchers &^= 1 << w.bit
		if now := l.current(node); now != node && now != nil && l.StateOf(now) != Absent {
			continue // the key has come back, and that is told by its new node
		}
		if s := l.explainer.StatusNow(node); s.State != Absent {
			out = append(out, s)
			if s.Busy && !l.toldBusy[node] {
				l.toldBusy[node] = true
				l.await(&waiter{keys: []*graph.Node{node}})
			}
		}
	}
	w.queue = w.queue[n:]
	if len(w.queue) == 0 {
		first = !w.synced
		w.synced = true
	}
	return out, w.synced, first
}

// tellSettled tells watchers that a key is busy no more.
func (l *loop) tellSettled(n *graph.Node) {
	delete(l.toldBusy, n)
	if n = l.current(n); n != nil {
		n.Revision++
		l.notifyWatchers(n)
	}
}
