package netlink

import (
	"slices"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// eventSize is what an event takes in the receive buffer of a socket, about. A
// watcher may be behind by as many events of a namespace as fit into one.
const eventSize = 1 << 10

// lost instead of a number of events: there were too many.
const lost = -1

// watcher is one Watch: the events that the hub has read and that f has not seen
// yet. Who is slow is so for himself: what he cannot keep is lost to him alone, and a
// namespace where too much happens loses its own events alone.
type watcher struct {
	limit int
	wake  chan struct{} // has room for one

	mu    sync.Mutex // guards what follows
	queue []kernel.Event
	// waiting is how many events of a namespace's sockets are in the queue; lost, that the
	// last of them says that there were more.
	waiting map[kernel.NS]int
	stopped bool
	err     error
}

func newWatcher(buffer int) *watcher {
	return &watcher{limit: max(buffer/eventSize, 1), wake: make(chan struct{}, 1), waiting: map[kernel.NS]int{}}
}

// push queues an event of a socket, or that events were lost where there is no more room.
// What comes after a loss says nothing new until that has been taken: who hears of it looks
// at everything there.
func (w *watcher) push(ev kernel.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.waiting[ev.NS]
	switch {
	case n == lost:
		return
	case ev.Lost, n == w.limit:
		ev, n = kernel.Event{NS: ev.NS, Lost: true}, lost
	default:
		n++
	}
	w.waiting[ev.NS] = n
	w.add(ev)
}

// post queues an event that does not come from a socket. There is always room.
func (w *watcher) post(ev kernel.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(ev)
}

// add queues an event; w.mu is held.
func (w *watcher) add(ev kernel.Event) {
	w.queue = push(w.queue, ev)
	if len(w.queue) == 1 {
		w.rouse()
	}
}

func (w *watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// stop ends run with an error or, when nil, without.
func (w *watcher) stop(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.stopped, w.err = true, err
	}
	w.rouse()
}

// run hands events to f until stopped.
func (w *watcher) run(f func(kernel.Event)) error {
	var spare []kernel.Event
	for {
		<-w.wake
		events, stopped, err := w.take(spare)
		if stopped {
			return err
		}
		for _, ev := range events {
			f(ev)
		}
		clear(events)
		if spare = events[:0]; cap(spare) > spareEvents {
			spare = nil // a flood does not keep its room
		}
	}
}

// spareEvents is how much room is kept for the next events.
const spareEvents = 1024

// take takes all that is queued and leaves an empty queue in its place.
func (w *watcher) take(spare []kernel.Event) (events []kernel.Event, stopped bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, w.queue = w.queue, spare
	clear(w.waiting)
	return events, w.stopped, w.err
}

// push appends and doubles the room when it is used up. append itself makes long lists longer
// by a quarter, and of what is large and comes by tens of thousands that is much garbage.
func push[T any](list []T, v T) []T {
	if len(list) == cap(list) {
		list = slices.Grow(list, max(len(list), 16))
	}
	return append(list, v)
}
