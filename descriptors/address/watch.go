package address

import (
	"context"
	"slices"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// watch turns the kernel's events into keys. What we did ourselves was noted
// before we did it, and goes no further.
func (d *address) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	ctx, cancel := context.WithCancel(ctx)
	joined := joining{wake: make(chan struct{}, 1)}
	defer d.Names.Tell(joined.add)()
	var told sync.WaitGroup
	told.Go(func() { d.tellJoined(ctx, &joined, notify) })
	defer told.Wait()
	defer cancel()
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

// joining are links that have become interfaces.
type joining struct {
	mu    sync.Mutex
	links map[kernel.LinkRef]string
	wake  chan struct{}
}

func (j *joining) add(ref kernel.LinkRef, name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.links == nil {
		j.links = map[kernel.LinkRef]string{}
	}
	j.links[ref] = name
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *joining) take() map[kernel.LinkRef]string {
	j.mu.Lock()
	defer j.mu.Unlock()
	links := j.links
	j.links = nil
	return links
}

// tellJoined tells of the addresses of links of others that become interfaces: nobody else
// has, for they stood there before.
func (d *address) tellJoined(ctx context.Context, j *joining, notify owned.Notify) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.wake:
		}
		for ref, name := range j.take() {
			if keys := d.foreignOn(ref, name); len(keys) > 0 {
				notify(keys...)
			}
		}
	}
}

// foreignOn returns the keys of the addresses on a link that others may have added.
func (d *address) foreignOn(ref kernel.LinkRef, name string) (keys []scheduler.Key) {
	exclusive := d.interfaceOf(name).RemovesAddresses()
	there, err := d.Kernel.Addresses(ref.NS, ref.Index)
	if err != nil {
		return nil // it has gone, and is told of when it comes back
	}
	for _, a := range there {
		if exclusive && a.Kernel {
			continue
		}
		k, noted := d.keyAt(kernel.AddressRef{LinkRef: ref, Prefix: a.Prefix})
		if !noted {
			k = scheduler.Key(models.AddressKey(name, a.Prefix.String()))
		}
		keys = append(keys, k)
	}
	return keys
}

func (d *address) heard(e kernel.Event) owned.News {
	switch {
	case e.Lost, e.Gone:
		return owned.NewsOf(d.keysIn(e.NS, e.Gone)...)
	case e.Route != nil && e.Deleted && e.Route.Protocol == kernel.ProtocolKernel:
		return owned.NewsOf(d.lostRoute(e.NS, *e.Route)...)
	case e.Address != nil:
		return d.news(e.NS, *e.Address, e.Deleted)
	}
	return owned.News{}
}

// news is what an event says that is not believed.
func (d *address) news(ns kernel.NS, a kernel.Address, deleted bool) owned.News {
	at := kernel.AddressRef{LinkRef: kernel.LinkRef{NS: ns, Index: a.Index}, Prefix: a.Prefix}
	name, ours := d.Names.Of(at.LinkRef)
	h, there := d.have.Get(at.LinkRef, at.Prefix)
	switch {
	case deleted && there:
		d.forget(at)
		return owned.NewsOf(h.key)
	case deleted, there && h.fit(a), !there && !ours:
		return owned.News{}
	case !there && a.Kernel && isOurs(d.interfaceOf(name)):
		return owned.News{}
	}
	// An event tells of the past: we may have deleted or changed it since.
	now, err := d.Kernel.Addresses(ns, a.Index)
	now = slices.DeleteFunc(now, func(b kernel.Address) bool { return b.Prefix != a.Prefix || there && h.fit(b) })
	switch {
	case err == nil && len(now) == 0:
		return owned.News{}
	case there:
		return owned.NewsOf(h.key)
	}
	return owned.NewsOf(scheduler.Key(models.AddressKey(name, a.Prefix.String())))
}

// keysIn are the keys with an address in the namespace, sorted.
func (d *address) keysIn(ns kernel.NS, gone bool) []scheduler.Key {
	var keys []scheduler.Key
	for _, h := range d.have.Of(func(l kernel.LinkRef) bool { return l.NS == ns }, gone) {
		keys = append(keys, h.key)
	}
	slices.Sort(keys)
	return keys
}
