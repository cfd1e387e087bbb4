package kerneltest

import (
	"context"
	"slices"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// lost instead of a number of events: there were too many, and the queue says so.
const lost = -1

// watcher is one Watch: events that its f has not seen yet.
type watcher struct {
	limit int
	wake  chan struct{} // has room for one

	mu    sync.Mutex // guards what follows
	queue []kernel.Event
	// waiting is how many events of a namespace are in the queue, or lost.
	waiting map[kernel.NS]int
}

// Watch calls f for every change until ctx ends; see the port.
func (k *Kernel) Watch(ctx context.Context, f func(kernel.Event)) error {
	w := &watcher{limit: k.opts.Queue, wake: make(chan struct{}, 1), waiting: map[kernel.NS]int{}}
	k.mu.Lock()
	k.watchers = append(k.watchers, w)
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.watchers = slices.DeleteFunc(k.watchers, func(other *watcher) bool { return other == w })
	}()
	f(kernel.Event{Ready: true})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		for _, ev := range w.take() {
			if ctx.Err() != nil {
				return nil
			}
			f(ev)
		}
	}
}

// tell gives an event of an open namespace to all who watch.
func (k *Kernel) tell(ev kernel.Event) {
	if !k.isOpen(ev.NS) {
		return
	}
	for _, w := range k.watchers {
		w.push(ev)
	}
}

// post gives an event to all who watch that is not of a socket: it is never lost.
func (k *Kernel) post(ev kernel.Event) {
	for _, w := range k.watchers {
		w.add(ev)
	}
}

// Overrun has the events of a namespace lost that nobody has taken yet, as when the buffer of
// the socket was too small for them (ENOBUFS). Who watches is told that.
func (k *Kernel) Overrun(ns kernel.NS) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.watchers {
		w.drop(ns)
		w.push(kernel.Event{NS: ns, Lost: true})
	}
}

func (w *watcher) drop(ns kernel.NS) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(ev kernel.Event) bool { return ev.NS == ns && !ev.Gone && ev.Named == "" })
	delete(w.waiting, ns)
}

func (w *watcher) push(ev kernel.Event) {
	w.mu.Lock()
	n := w.waiting[ev.NS]
	told := n == lost
	switch {
	case ev.Lost, n == w.limit:
		ev, n = kernel.Event{NS: ev.NS, Lost: true}, lost
	case !told:
		n++
	}
	w.waiting[ev.NS] = n
	w.mu.Unlock()
	if !told {
		w.add(ev)
	}
}

func (w *watcher) add(ev kernel.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, ev)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() []kernel.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.queue
	w.queue = nil
	clear(w.waiting)
	return events
}

func (k *Kernel) tellLink(l *link, deleted bool) {
	seen := k.shown(l)
	k.tell(kernel.Event{NS: l.ns.id, Link: &seen, Deleted: deleted})
}

func (k *Kernel) tellAddress(l *link, a kernel.Address, deleted bool) {
	k.tell(kernel.Event{NS: l.ns.id, Address: &a, Deleted: deleted})
}

func (k *Kernel) tellRoute(n *namespace, r kernel.Route, deleted bool) {
	r.NextHops = slices.Clone(r.NextHops)
	k.tell(kernel.Event{NS: n.id, Route: &r, Deleted: deleted})
}
