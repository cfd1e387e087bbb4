package route

import (
	"context"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/scheduler"
)

// watch turns the kernel's events into keys. The kernel says nothing of the
// IPv4 routes that it drops with a link, an address or a nexthop, so those count as news
// of the routes that used them. Of a nexthop that it drops without a word itself, the kind
// of nexthops finds out.
func (d *route) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.objects.Follow(ctx, d.Kernel, func(e kernel.Event) owned.News { return owned.NewsOf(d.heard(e)...) }, notify)
}

func (d *route) heard(e kernel.Event) []scheduler.Key {
	switch {
	case e.Lost, e.Gone:
		return d.keysIn(e.NS, e.Gone, func(kernel.Route) bool { return true })
	case e.Route != nil && e.Route.TOS == 0 && !(e.Route.OfAddress() && e.Route.Table == kernel.TableLocal):
		return d.news(e.NS, *e.Route, e.Deleted)
	case e.Link != nil && (e.Deleted || !e.Link.Up):
		return d.keysIn(e.NS, false, func(r kernel.Route) bool { return uses(r, e.Link.Index) })
	case e.Nexthop != nil && e.Deleted:
		return d.keysIn(e.NS, false, func(r kernel.Route) bool { return r.Nexthop == e.Nexthop.ID })
	case e.Address != nil && e.Deleted:
		src := e.Address.Prefix.Addr()
		return d.keysIn(e.NS, false, func(r kernel.Route) bool { return r.Src == src || uses(r, e.Address.Index) && sameFamily(r, src) })
	}
	return nil
}

func uses(r kernel.Route, index int) bool {
	return r.Index == index || slices.ContainsFunc(r.NextHops, func(h kernel.NextHop) bool { return h.Index == index })
}

func sameFamily(r kernel.Route, a netip.Addr) bool { return r.Dst.Addr().Is4() == a.Is4() }

// news is the key about whose route an event says something that is not
// believed, if any.
func (d *route) news(ns kernel.NS, r kernel.Route, deleted bool) []scheduler.Key {
	h, known := d.have.Get(ns, identityOf(r))
	if !known {
		return nil
	}
	ours := r.Protocol == d.Owner.Protocol() || h.there() && r.Protocol == h.way.Protocol
	if h.there() {
		if !deleted && ours && d.same(ns, h.route(identityOf(r)), r) {
			return nil
		}
	}
	d.note(ns, h.key, unseen(r)) // until it is read
	return []scheduler.Key{h.key}
}

// same reports whether two routes mean the same. Most are the echo of what we made, to
// the letter.
func (d *route) same(ns kernel.NS, a, b kernel.Route) bool {
	return a.Equal(b) || equal("", d.value(ns, a, nil, d.linkName), d.value(ns, b, nil, d.linkName))
}

// keysIn are the keys of the routes of a namespace whose ways pass, sorted. If it is gone
// all are forgotten.
func (d *route) keysIn(ns kernel.NS, gone bool, pass func(kernel.Route) bool) (keys []scheduler.Key) {
	for _, h := range d.have.Of(func(at kernel.NS) bool { return at == ns }, gone) {
		if pass(*h.way) {
			keys = append(keys, h.key)
		}
	}
	slices.Sort(keys)
	return keys
}
