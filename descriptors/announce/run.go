package announce

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Run repeats announcements, and sends those that wait for a carrier, until ctx ends.
func (a *Announcer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watched error
	var watch sync.WaitGroup
	watch.Go(func() {
		defer cancel()
		if watched = a.k.Watch(ctx, a.heard); watched != nil {
			watched = fmt.Errorf("watch the links whose addresses are announced: %w", watched)
		}
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-a.wake:
		case <-timer.C:
		}
		if ctx.Err() == nil {
			a.work(ctx, timer)
		}
	}
	cancel()
	watch.Wait()
	return watched
}

// work sends the announcements that are due and sets the timer for the next ones.
func (a *Announcer) work(ctx context.Context, timer *time.Timer) {
	a.readAgain()
	a.announceReaddressed()
	a.send(a.toTry())
	for ctx.Err() == nil {
		some, next := a.due(time.Now())
		if len(some) > 0 {
			a.send(a.there(some))
			continue
		}
		if next > 0 {
			timer.Reset(next)
		}
		return
	}
}

// due returns the next repetitions, at most one batch, or the time until the next one; 0 if there
// is none.
func (a *Announcer) due(now time.Time) (some map[kernel.AddressRef]*announcement, next time.Duration) {
	some = map[kernel.AddressRef]*announcement{}
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait := a.pausing.Sub(now); wait > 0 {
		return nil, wait
	}
	for i, q := range a.queues {
		for len(q) > 0 && len(some) < turn {
			r := q[0]
			l := a.links[r.of.LinkRef]
			turned := r.done == i+1 && !r.retrying || i == len(repetitions) && r.retrying
			if valid := l != nil && l.due[r.of.Prefix] == r.announcement && turned && !r.waiting; valid {
				if wait := r.at.Sub(now); wait > 0 {
					if next == 0 || wait < next {
						next = wait
					}
					break
				}
				some[r.of], r.retrying = r.announcement, false
			}
			q = q[1:]
		}
		if a.queues[i] = q; len(q) == 0 {
			a.queues[i] = nil
		}
	}
	if len(some) == turn {
		a.pausing = now.Add(rest)
	}
	return some, next
}

// there returns the addresses that are still on their links, and ends the announcement of the
// others, including those that cannot be read.
func (a *Announcer) there(list map[kernel.AddressRef]*announcement) map[kernel.AddressRef]*announcement {
	const few = 8
	links := map[kernel.NS]map[int]bool{}
	for at := range list {
		if links[at.NS] == nil {
			links[at.NS] = map[int]bool{}
		}
		links[at.NS][at.Index] = true
	}
	found := map[kernel.AddressRef]bool{}
	for ns, indexes := range links {
		if len(indexes) > few {
			indexes = map[int]bool{0: true} // all at once
		}
		for index := range indexes {
			all, _ := a.k.Addresses(ns, index)
			for _, addr := range all {
				if announced(addr) {
					found[kernel.AddressRef{LinkRef: kernel.LinkRef{NS: ns, Index: addr.Index}, Prefix: addr.Prefix}] = true
				}
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, one := range list {
		if found[at] {
			continue
		}
		delete(list, at)
		if l := a.links[at.LinkRef]; l != nil && l.due[at.Prefix] == one {
			a.drop(at)
		}
	}
	return list
}

// toTry returns the waiting announcements of links that may have a carrier now.
func (a *Announcer) toTry() map[kernel.AddressRef]*announcement {
	some := map[kernel.AddressRef]*announcement{}
	a.mu.Lock()
	for at := range a.carrying {
		if l := a.links[at]; l != nil {
			for p, one := range l.due {
				if one.waiting {
					some[kernel.AddressRef{LinkRef: at, Prefix: p}] = one
				}
			}
		}
	}
	clear(a.carrying)
	a.mu.Unlock()
	if len(some) == 0 {
		return nil
	}
	return a.there(some)
}

// readAgain reads the links of namespaces whose events were lost.
func (a *Announcer) readAgain() {
	a.mu.Lock()
	lost := a.lost
	a.lost = map[kernel.NS]bool{}
	a.mu.Unlock()
	for ns := range lost {
		links, err := a.k.Links(ns)
		if err != nil {
			continue // an event reports a namespace that has been deleted
		}
		a.mu.Lock()
		for at := range a.links {
			if at.NS != ns {
				continue
			}
			if l, there := kernel.FindLink(links, at.Index); there {
				a.note(l)
				if a.waiting[at] {
					a.carrying[at] = true
				}
			} else {
				a.dropLink(at)
			}
		}
		a.mu.Unlock()
	}
}

// heard updates known links from an event.
func (a *Announcer) heard(e kernel.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case e.Gone:
		for at := range a.links {
			if at.NS == e.NS {
				a.dropLink(at)
			}
		}
		delete(a.lost, e.NS)
	case e.Lost:
		a.lost[e.NS] = true
		a.rouse()
	case e.Link != nil && e.Deleted:
		a.dropLink(e.Link.Ref())
	case e.Link != nil:
		a.note(*e.Link)
		a.mayCarry(e.Link.Ref())
	case e.Port != 0:
		port := kernel.LinkRef{NS: e.NS, Index: e.Port}
		for at := range a.waiting {
			if peer := a.links[at].peer; peer == port || peer.Index == 0 {
				a.mayCarry(at)
			}
		}
	}
}

// mayCarry schedules the waiting announcements of a link; a.mu is held.
func (a *Announcer) mayCarry(at kernel.LinkRef) {
	if a.waiting[at] {
		a.carrying[at] = true
		a.rouse()
	}
}

// compare orders addresses by their links.
func compare(a, b kernel.AddressRef) int {
	return cmp.Or(cmp.Compare(a.NS, b.NS), cmp.Compare(a.Index, b.Index), a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
}
