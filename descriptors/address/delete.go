package address

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// deleteBatch deletes many with few calls of the kernel. All of one link go together, so that
// what goes anyway is not put back in between.
func (d *address) deleteBatch(ctx context.Context, ops []*op) {
	d.objects.DeleteBatch(ops, func() { d.removeAll(ctx, ops) })
}

func (d *address) removeAll(ctx context.Context, ops []*op) {
	var links []kernel.LinkRef
	byLink := map[kernel.LinkRef][]*op{}
	for _, o := range ops {
		if byLink[o.Meta.LinkRef] == nil {
			links = append(links, o.Meta.LinkRef)
		}
		byLink[o.Meta.LinkRef] = append(byLink[o.Meta.LinkRef], o)
	}
	read := d.reader(len(links))
	removals := make([]*removal, len(links))
	for i, link := range links {
		removals[i] = &removal{link: link, err: ctx.Err()}
		if ctx.Err() == nil {
			d.find(removals[i], byLink[link], read)
		}
	}
	d.remove(removals)
	for i, link := range links {
		r := removals[i]
		if r.err == nil && len(r.stay) > 0 { // the kernel may have made one primary
			r.err = d.order(link)
		}
		for _, o := range byLink[link] {
			o.Err = r.err
		}
		if r.err != nil {
			for _, o := range r.forgotten {
				d.note(o.Meta, o.Key, o.Value, o.Value.GetPosition())
			}
		}
	}
}

// removal is what goes from one link.
type removal struct {
	link          kernel.LinkRef
	there, doomed []kernel.Address
	stay          []kernel.Address // may be dropped with the doomed, and should not
	forgotten     []*op
	err           error
}

// find says what the operations on a link take from it.
func (d *address) find(r *removal, ops []*op, read readLink) {
	var err error
	if r.there, err = read(r.link); err != nil && !kernel.IsGone(err) {
		r.err = fmt.Errorf("read the addresses before a deletion: %w", err)
		return
	}
	for _, o := range ops {
		if k, had := d.keyAt(o.Meta); had && k != o.Key {
			continue // another key has taken it over
		}
		r.forgotten = append(r.forgotten, o)
		d.forget(o.Meta) // first, or we take the event for news
		d.Announcer.Removed(o.Meta)
		_, shared := d.shared.Get(o.Meta.LinkRef, o.Meta.Prefix)
		d.shared.Forget(o.Meta.LinkRef, o.Meta.Prefix)
		for _, a := range r.there {
			if a.Prefix == o.Meta.Prefix && d.mayDelete(o, shared) {
				r.doomed = append(r.doomed, a)
			}
		}
	}
}

// mayDelete reports whether the address of an operation may be removed: one in the ledger, and on a
// link of ours one that is not shared with others.
func (d *address) mayDelete(o *op, shared bool) bool {
	if e, recorded := d.Owner.Entry(string(o.Key)); recorded && e.NS == o.Meta.NS && e.Index == o.Meta.Index {
		return true
	}
	v, link, ok := d.Interfaces.Get(scheduler.Key(models.InterfaceKey(o.Value.GetInterface())))
	return ok && !shared && link == o.Meta.LinkRef && isOurs(v)
}

// givesBack reports whether a deletion leaves the address on the link, because somebody else added it.
func (d *address) givesBack(k scheduler.Key, v *models.Address, m kernel.AddressRef) bool {
	_, shared := d.shared.Get(m.LinkRef, m.Prefix)
	return !d.mayDelete(&op{Key: k, Value: v, Meta: m}, shared)
}

// remove takes addresses off their links, and puts back those that the kernel drops with them.
func (d *address) remove(removals []*removal) {
	var places []kernel.NS
	in := map[kernel.NS][]*removal{}
	for _, r := range removals {
		if len(r.doomed) == 0 {
			continue
		}
		if in[r.link.NS] == nil {
			places = append(places, r.link.NS)
		}
		in[r.link.NS] = append(in[r.link.NS], r)
	}
	for _, ns := range places {
		d.removeIn(ns, in[ns])
	}
}

func (d *address) removeIn(ns kernel.NS, removals []*removal) {
	var all []kernel.Address
	var of []*removal // whose each of them is
	for _, r := range removals {
		if r.stay = r.survivors(); len(r.stay) > 0 {
			defer d.promote(r.link)()
		}
		// Secondary ones first: they would go with their primary anyway.
		slices.SortStableFunc(r.doomed, func(a, b kernel.Address) int { return rank(a) - rank(b) })
		for _, a := range r.doomed {
			all, of = append(all, a), append(of, r)
		}
	}
	for i, err := range d.Kernel.DeleteAddresses(ns, all) {
		if err != nil && !kernel.IsGone(err) {
			of[i].err = cmp.Or(of[i].err, fmt.Errorf("delete %s: %w", all[i].Prefix, err))
		}
	}
	for _, r := range removals {
		r.err = cmp.Or(r.err, d.putBack(r.link, r.stay))
	}
}

// promote has the kernel make a secondary address the primary one when that is deleted,
// until it is told that this is done. Else all go together, and with the last address
// all routes over the link. A kernel that cannot do it does not: what went is put back.
func (d *address) promote(link kernel.LinkRef) (done func()) {
	done = func() {}
	l, err := d.Kernel.LinkByIndex(link.NS, link.Index)
	if err != nil {
		return done
	}
	place := "net/ipv4/conf/" + l.Name + "/promote_secondaries"
	was, err := d.Kernel.Sysctl(link.NS, place)
	if err != nil || was != "0" || d.Kernel.SetSysctl(link.NS, place, "1") != nil {
		return done
	}
	return func() { _ = d.Kernel.SetSysctl(link.NS, place, was) }
}

func rank(a kernel.Address) int {
	if a.Secondary {
		return 0
	}
	return 1
}

// survivors are the addresses that should be there after the removal, but of
// which the kernel may have dropped some: IPv4, in the network of a primary.
func (r *removal) survivors() []kernel.Address {
	var list []kernel.Address
	for _, a := range r.there {
		going := slices.ContainsFunc(r.doomed, func(x kernel.Address) bool { return x.Prefix == a.Prefix })
		touched := slices.ContainsFunc(r.doomed, func(x kernel.Address) bool {
			return !x.Secondary && x.Prefix.Addr().Is4() && x.Network() == a.Network()
		})
		if !going && touched {
			list = append(list, a)
		}
	}
	return list
}

// putBack adds what is missing, in the old order, so that the first becomes
// the new primary. Where it was promoted nothing is missing.
func (d *address) putBack(link kernel.LinkRef, want []kernel.Address) error {
	if len(want) == 0 {
		return nil
	}
	now, err := d.Kernel.Addresses(link.NS, link.Index)
	if err != nil {
		return fmt.Errorf("read the addresses after a deletion: %w", err)
	}
	for _, a := range want {
		if slices.ContainsFunc(now, func(b kernel.Address) bool { return b.Prefix == a.Prefix }) {
			continue
		}
		if err := d.Kernel.AddAddress(link.NS, a); err != nil && !errors.Is(err, kernel.ErrExist) {
			return fmt.Errorf("put back %s, which the kernel dropped with its primary: %w", a.Prefix, err)
		}
	}
	return nil
}
