package iface

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// watch turns the kernel's events into keys. Most events are the echo of our
// own doing and show what is believed anyway; they go no further.
func (d *iface) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	d.setNotify(notify)
	defer d.setNotify(nil)
	var polls sync.WaitGroup
	defer polls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	polls.Go(func() { _ = owned.Poll(ctx, d.Poll, owned.Every, d.accepting, notify) }) // it ends with ctx
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *iface) heard(e kernel.Event) owned.News {
	switch {
	case e.Lost, e.Gone:
		return owned.NewsOf(d.keysIn(e.NS, e.Gone)...)
	case e.Link != nil:
		return d.news(*e.Link, e.Deleted)
	case e.FDB != nil && e.Deleted:
		return d.newsOfFlood(e.NS, *e.FDB)
	case e.Port != 0:
		return d.newsOfPort(kernel.LinkRef{NS: e.NS, Index: e.Port})
	}
	return owned.News{}
}

func (d *iface) setNotify(f func(...scheduler.Key)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notify = f
}

// news is what an event says that is not believed. A link that is gone is forgotten at
// once: its index may be given to another.
func (d *iface) news(l kernel.Link, deleted bool) owned.News {
	ref := l.Ref()
	d.mu.Lock()
	h := d.links[ref]
	if h == nil {
		d.mu.Unlock()
		key, ours := d.Owner.MarkedKey(l.Alias)
		if ours && !deleted && strings.HasPrefix(key, prefix) && !d.isCopy(l) {
			return owned.NewsOf(scheduler.Key(key))
		}
		return owned.News{}
	}
	key, value := h.key, h.value
	if h.marked = h.marked || l.Alias != ""; !h.marked { // it is about to get its mark
		l.Alias = d.Owner.Mark(string(key))
	}
	if h.dead {
		if deleted {
			d.drop(ref)
		}
		d.mu.Unlock()
		return owned.News{}
	}
	if h.busy {
		d.noteMAC(key, l)
		h.meanwhile.last, h.meanwhile.unclear = &l, h.meanwhile.unclear || deleted
		d.mu.Unlock()
		return owned.News{}
	}
	if deleted {
		d.drop(ref)
	} else {
		d.noteMAC(key, l)
	}
	d.mu.Unlock()
	switch {
	case deleted, value == nil:
		return owned.NewsOf(key)
	case d.so(key, l, value):
		d.saw(key, l)
		return owned.News{}
	}
	return d.newsNow(key, ref, value)
}

// newsNow returns the key of a link that differs from its value now, since an event reports the past. An
// operation may have begun since the value was read: its end judges the link then. Or it has ended as
// well, and has left another value.
func (d *iface) newsNow(key scheduler.Key, ref kernel.LinkRef, value *models.Interface) owned.News {
	for !d.stillSo(key, ref, value) {
		d.mu.Lock()
		h := d.links[ref]
		known := h != nil && h.key == key && !h.dead
		switch {
		case known && h.busy:
			h.meanwhile.unclear = true
			d.mu.Unlock()
			return owned.News{}
		case !known || h.value == value || h.value == nil:
			d.mu.Unlock()
			return owned.NewsOf(key)
		}
		value = h.value
		d.mu.Unlock()
	}
	return owned.News{}
}

// newsOfPort is what a bridge says of a port that is not believed. It says much that nobody
// asked for.
func (d *iface) newsOfPort(ref kernel.LinkRef) owned.News {
	return d.newsAbout(ref, func(v *models.Interface) bool {
		return v.GetBridgePort() != nil || len(v.GetBridge().GetVlans()) > 0
	})
}

// newsAbout returns the key of a link after an event that is not of the link itself, if the event can
// concern its value and the link is no longer as the value says.
func (d *iface) newsAbout(ref kernel.LinkRef, concerns func(*models.Interface) bool) owned.News {
	d.mu.Lock()
	h := d.links[ref]
	if h == nil || h.dead || !concerns(h.value) {
		d.mu.Unlock()
		return owned.News{}
	}
	key, value, busy := h.key, h.value, h.busy
	h.meanwhile.unclear = h.meanwhile.unclear || busy
	d.mu.Unlock()
	if busy {
		return owned.News{}
	}
	return d.newsNow(key, ref, value)
}

// drop forgets a link; d.mu is held.
func (d *iface) drop(ref kernel.LinkRef) {
	delete(d.links, ref)
	d.Names.Drop(ref)
}

// so reports whether a link is as the value says.
func (d *iface) so(k scheduler.Key, l kernel.Link, v *models.Interface) bool {
	return equal(k, d.value(k, l, v.GetNamespace(), v), v)
}

// stillSo reads the link to tell.
func (d *iface) stillSo(k scheduler.Key, ref kernel.LinkRef, v *models.Interface) bool {
	if v == nil {
		return false
	}
	l, err := d.Kernel.LinkByIndex(ref.NS, ref.Index)
	return err == nil && d.so(k, l, v)
}

// keysIn are the keys of our links in a namespace, sorted. If it is gone its
// links are forgotten, for its number may be given to another; of the dead the
// last word may have been lost.
func (d *iface) keysIn(ns kernel.NS, gone bool) []scheduler.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	var keys []scheduler.Key
	for ref, h := range d.links {
		if ref.NS != ns {
			continue
		}
		if h.dead || gone && !h.busy {
			d.drop(ref)
		}
		if !h.dead {
			keys = append(keys, h.key)
		}
	}
	slices.Sort(keys)
	return keys
}

// keep makes a full reading what is held. Links in namespaces that could not
// be read, and those that an operation is at, stay.
func (d *iface) keep(links map[scheduler.Key]kernel.Link, failed map[kernel.NS]error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ref, h := range d.links {
		l, there := links[h.key]
		if !h.busy && !h.dead && failed[ref.NS] == nil && (!there || l.Ref() != ref) {
			d.drop(ref)
		}
	}
	for k, l := range links {
		if h := d.links[l.Ref()]; h == nil || h.dead {
			d.links[l.Ref()] = &held{key: k}
		}
		d.Names.Put(l.Ref(), nameOf(k))
		d.Owner.Use(string(k), l.NS) // known by its mark alone, perhaps
	}
}

func (d *iface) keepOne(k scheduler.Key, ref kernel.LinkRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.links[ref]; h == nil || h.dead {
		d.links[ref] = &held{key: k}
	}
	d.Names.Put(ref, nameOf(k))
	d.Owner.Use(string(k), ref.NS)
}

// seen notes what a reading showed.
func (d *iface) seen(ref kernel.LinkRef, v *models.Interface) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.links[ref]; h != nil && !h.busy {
		h.value, h.marked = v, true
	}
}

// forget drops a link that is no longer where it was.
func (d *iface) forget(k scheduler.Key, ref kernel.LinkRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.links[ref]; h != nil && h.key == k && !h.busy {
		d.drop(ref)
	}
}
