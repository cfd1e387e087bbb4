package hostlink

import (
	"context"
	"slices"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/scheduler"
)

// poll is how often a needed namespace that is not there is looked for. The
// scheduler tells what a value needs, not when the needs of others come true.
const poll = time.Second

// watch turns the kernel's events into keys, and looks for namespaces.
func (d *hostlink) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	ctx, cancel := context.WithCancel(ctx)
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		_ = owned.Poll(ctx, d.Poll, poll, d.moved, notify)
	}()
	defer func() { cancel(); <-polled }()
	return d.events.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *hostlink) heard(e kernel.Event) owned.News {
	switch {
	case e.Lost && e.NS == d.Kernel.Own():
		return owned.News{All: true}
	case e.Lost, e.Gone:
		keys := d.keysIn(e.NS)
		if e.Gone {
			d.forgetIn(e.NS)
		}
		return owned.NewsOf(keys...)
	case e.Link != nil:
		return owned.NewsOf(d.news(*e.Link, e.Deleted)...)
	}
	return owned.News{}
}

// moved are the keys whose selector leads to another namespace than before.
func (d *hostlink) moved(ctx context.Context) []scheduler.Key {
	var moved []scheduler.Key
	for _, k := range d.targets() {
		d.mu.Lock()
		t := d.wanted[k]
		d.mu.Unlock()
		if t == nil {
			continue
		}
		place, _ := d.Places.Resolve(ctx, t.in)
		d.mu.Lock()
		if t.ns != place.NS {
			moved = append(moved, k)
		}
		d.mu.Unlock()
	}
	return moved
}

// keysIn are the keys that depend on a namespace, sorted.
func (d *hostlink) keysIn(ns kernel.NS) []scheduler.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	var keys []scheduler.Key
	for ref, s := range d.seen {
		if ref.NS == ns {
			keys = append(keys, s.keys...)
		}
	}
	for k, t := range d.wanted {
		if t.ns == ns {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// news are the keys about which an event says something new: those under which
// the link was seen, and those that ask for its name.
func (d *hostlink) news(l kernel.Link, deleted bool) []scheduler.Key {
	ours := d.ours(l) || d.newborn(l)
	d.mu.Lock()
	defer d.mu.Unlock()
	s, known := d.seen[l.Ref()]
	switch {
	case deleted && !known, ours && !known:
		return nil
	case !deleted && known && same(s.value, valueOf(l)):
		return nil
	}
	keys := slices.Clone(s.keys)
	if deleted {
		delete(d.seen, l.Ref())
	} else {
		keys = append(keys, d.named(l)...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// newborn: a link in our group without a mark is about to get one, and an
// event will tell.
func (d *hostlink) newborn(l kernel.Link) bool {
	return l.Alias == "" && l.Group == d.Owner.Group()
}

// named are the keys that a link of that name has; d.mu is held.
func (d *hostlink) named(l kernel.Link) []scheduler.Key {
	if l.NS == d.Kernel.Own() {
		return []scheduler.Key{keyOf(l.Name)}
	}
	var keys []scheduler.Key
	for k, t := range d.wanted {
		if t.ns == l.NS && t.host == l.Name {
			keys = append(keys, k)
		}
	}
	return keys
}
