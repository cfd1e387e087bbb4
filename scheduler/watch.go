package scheduler

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/plumb-net/plumb/scheduler/internal/engine"
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
	// lent is what the last Next returned, if it is to be used again.
	lent *batch

	// owned by the loop
	picture []*graph.Node // what is still to be told of the first picture
	at      uint64        // the revision up to which everything was told
	behind  bool          // it was woken, and has not read all since
	synced  bool
}

// change is an entry of what watchers read on from. It counts as long as the node has
// not changed again: so what is told of a slow one's keys is the last of each.
type change struct {
	node     *graph.Node
	revision uint64
}

const (
	watchBatch = 256
	// fewStatuses are not worth a batch that is used again.
	fewStatuses = 16
)

// batch holds what one Next returns.
type batch struct {
	all  [watchBatch]Status
	used int
}

// batches are used again, over all watchers: a status is large, and a mass of changes
// would leave many of them behind.
var batches = sync.Pool{New: func() any { return new(batch) }}

// giveBack ends the use of what the last Next returned.
func (w *Watcher) giveBack() {
	if w.lent != nil {
		clear(w.lent.all[:w.lent.used])
		batches.Put(w.lent)
		w.lent = nil
	}
}

// Watch follows statuses: first those of all keys under the prefixes (none
// means all), then every change, coalesced per key. A prefix that does not end
// in a slash is one key. Stop it when done. There may be any number of watchers:
// one more costs a change a comparison. One goroutine reads a watcher.
func (s *Scheduler) Watch(prefixes ...Key) *Watcher {
	w := &Watcher{s: s, prefixes: prefixes, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	var picture []keyed
	_ = s.call(func(l *loop) { picture = l.addWatcher(w) })
	w.picture = sorted(picture) // Next is not called before, so the loop does not read it
	return w
}

// Next blocks until there are changes and returns some of them, at most 256. They are the
// caller's until he calls Next again; a copy of a Status stays as it is.
// inSync is set from the batch on that completes the first picture. It returns
// ctx.Err(), ErrWatcherStopped or ErrStopped.
func (w *Watcher) Next(ctx context.Context) (changes []Status, inSync bool, err error) {
	for {
		w.giveBack()
		first := false
		select {
		case <-w.stopped:
			return nil, false, ErrWatcherStopped
		default:
		}
		if err := w.s.call(func(l *loop) { changes, inSync, first = l.drain(w) }); err != nil {
			return nil, false, err
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

// addWatcher returns the first picture, which is to be sorted.
func (l *loop) addWatcher(w *Watcher) (picture []keyed) {
	w.at, w.behind = l.revision, true
	l.watchers = append(l.watchers, w)
	l.EachUnder(w.prefixes, func(n *graph.Node) { picture = append(picture, keyed{n.Key, n}) })
	return picture
}

func (l *loop) removeWatcher(w *Watcher) {
	l.watchers = slices.DeleteFunc(l.watchers, func(other *Watcher) bool { return other == w })
}

// changed gives the node's status a new revision and notes it for the watchers.
func (l *loop) changed(n *graph.Node) {
	l.revision++
	n.Revision = l.revision
	if len(l.watchers) > 0 {
		l.changes = append(l.changes, change{n, n.Revision})
	}
}

// after are the changes that came after a revision.
func (l *loop) after(revision uint64) []change {
	i, _ := slices.BinarySearchFunc(l.changes, revision+1, func(c change, r uint64) int { return cmp.Compare(c.revision, r) })
	return l.changes[i:]
}

// wakeReaders wakes the watchers that a change concerns, at the end of a turn.
func (l *loop) wakeReaders() {
	if len(l.changes) == 0 {
		return
	}
	read := l.revision // by all of them
	for _, w := range l.watchers {
		if !w.behind {
			w.behind = slices.ContainsFunc(l.after(w.at), func(c change) bool { return kv.Under(c.node.Key, w.prefixes) })
			if !w.behind {
				w.at = l.revision
				continue
			}
			w.rouse()
		}
		read = min(read, w.at)
	}
	l.forget(read)
}

// forget drops the changes that everybody has read. Those that a later one of the same node
// has made void go when they are as many as the others.
func (l *loop) forget(read uint64) {
	switch {
	case read == l.revision:
		clear(l.changes)
		l.changes = l.changes[:0]
	case len(l.changes) > l.fewChanges:
		l.changes = slices.DeleteFunc(l.changes, func(c change) bool { return c.revision <= read || c.revision != c.node.Revision })
	default:
		return
	}
	l.fewChanges = max(2*len(l.changes), engine.MaxSpare)
	if cap(l.changes) > 2*l.fewChanges {
		l.changes = slices.Clone(l.changes)
	}
}

// rouse makes the watcher's Next look again.
func (w *Watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (l *loop) drain(w *Watcher) (out []Status, inSync, first bool) {
	status := l.explainer.Statuses()
	left := l.after(w.at)
	if most := min(watchBatch, len(w.picture)+len(left)); most > fewStatuses {
		w.lent = batches.Get().(*batch)
		out = w.lent.all[:0]
		defer func() { w.lent.used = len(out) }()
	}
	for ; len(w.picture) > 0 && len(out) < watchBatch; w.picture = w.picture[1:] {
		if n := w.picture[0]; n.Revision <= w.at { // or it comes with the changes
			out = l.appendStatus(out, n, status)
		}
	}
	if len(w.picture) > 0 {
		return out, w.synced, false
	}
	w.picture = nil
	for ; len(left) > 0 && len(out) < watchBatch; left = left[1:] {
		c := left[0]
		if w.at = c.revision; c.revision == c.node.Revision && kv.Under(c.node.Key, w.prefixes) {
			out = l.appendStatus(out, c.node, status)
		}
	}
	if w.behind = len(left) > 0; !w.behind {
		w.at, first, w.synced = l.revision, !w.synced, true
	}
	return out, w.synced, first
}

// appendStatus adds what watchers are told of a node, if anything.
func (l *loop) appendStatus(out []Status, n *graph.Node, status func(*graph.Node) Status) []Status {
	if now := l.current(n); now != n && now != nil && l.StateOf(now) != Absent {
		return out // the key has come back, and that is told by its new node
	}
	s := status(n)
	if s.State == Absent {
		return out
	}
	if s.Busy && !l.toldBusy[n] {
		l.toldBusy[n] = true
		l.await(&waiter{keys: []*graph.Node{n}})
	}
	return append(out, s)
}

// tellSettled tells watchers that a key is busy no more.
func (l *loop) tellSettled(n *graph.Node) {
	delete(l.toldBusy, n)
	if n = l.current(n); n != nil {
		l.changed(n)
	}
}
