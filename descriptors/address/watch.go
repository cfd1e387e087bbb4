package address

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// watch turns the kernel's events into keys. What we did ourselves was noted
// before we did it, and goes no further.
func (d *address) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *address) heard(e kernel.Event) owned.News {
	switch {
	case e.Lost, e.Gone:
		return owned.NewsOf(d.keysIn(e.NS, e.Gone)...)
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
	case !there && a.Kernel && exclusive(d.interfaceOf(name)):
		return owned.News{}
	}
	// An event tells of the past: we may have deleted or changed it since.
	now, err := d.Kernel.Addresses(ns, a.Index)
	i := slices.IndexFunc(now, func(b kernel.Address) bool { return b.Prefix == a.Prefix })
	switch {
	case err == nil && (i < 0 || there && h.fit(now[i])):
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
