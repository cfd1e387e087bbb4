package address

import (
	"context"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// watch turns the kernel's events into keys. What we did ourselves was noted
// before we did it, and goes no further.
func (d *address) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.Kernel.Watch(ctx, func(e kernel.Event) {
		switch {
		case e.Ready:
			if d.read.Load() {
				notify()
			}
		case e.Lost, e.Gone:
			if keys := d.keysIn(e.NS, e.Gone); len(keys) > 0 {
				notify(keys...)
			}
		case e.Address != nil:
			if k, news := d.news(e.NS, *e.Address, e.Deleted); news {
				notify(k)
			}
		}
	})
}

func (d *address) news(ns kernel.NS, a kernel.Address, deleted bool) (scheduler.Key, bool) {
	at := kernel.AddressRef{LinkRef: kernel.LinkRef{NS: ns, Index: a.Index}, Prefix: a.Prefix}
	name, ours := d.Names.Of(at.LinkRef)
	k, there := d.keyAt(at)
	switch {
	case deleted && there:
		d.forget(at)
		return k, true
	case deleted, there, !ours:
		return k, false
	case a.Kernel && exclusive(d.interfaceOf(name)):
		return k, false
	}
	// An event tells of the past: we may have deleted it since.
	now, err := d.Kernel.Addresses(ns, a.Index)
	there = err != nil || slices.ContainsFunc(now, func(b kernel.Address) bool { return b.Prefix == a.Prefix })
	return scheduler.Key(models.AddressKey(name, a.Prefix.String())), there
}

// keysIn are the keys with an address in the namespace, sorted.
func (d *address) keysIn(ns kernel.NS, gone bool) []scheduler.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	var keys []scheduler.Key
	for link, on := range d.have {
		if link.NS != ns {
			continue
		}
		keys = slices.AppendSeq(keys, maps.Values(on))
		if gone {
			delete(d.have, link)
		}
	}
	slices.Sort(keys)
	return keys
}
