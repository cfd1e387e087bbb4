package address

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// deleteBatch deletes all of one link together, so that what goes anyway is
// not put back in between.
func (d *address) deleteBatch(ctx context.Context, ops []*op) {
	var links []kernel.LinkRef
	byLink := map[kernel.LinkRef][]*op{}
	for _, o := range ops {
		if byLink[o.Meta.LinkRef] == nil {
			links = append(links, o.Meta.LinkRef)
		}
		byLink[o.Meta.LinkRef] = append(byLink[o.Meta.LinkRef], o)
	}
	read := d.reader(len(links))
	for _, link := range links {
		err := ctx.Err()
		if err == nil {
			err = d.deleteOn(link, byLink[link], read)
		}
		for _, o := range byLink[link] {
			o.Err = err
		}
	}
}

func (d *address) deleteOn(link kernel.LinkRef, ops []*op, read readLink) error {
	keys := make([]scheduler.Key, len(ops))
	for i, o := range ops {
		keys[i] = o.Key
	}
	return d.objects.Delete(func() error { return d.removeOn(link, ops, read) }, keys...)
}

func (d *address) removeOn(link kernel.LinkRef, ops []*op, read readLink) error {
	there, err := read(link)
	if err != nil && !kernel.IsGone(err) {
		return fmt.Errorf("read the addresses before a deletion: %w", err)
	}
	ops = slices.DeleteFunc(slices.Clone(ops), func(o *op) bool {
		k, had := d.keyAt(o.Meta)
		return had && k != o.Key // another key has taken it over
	})
	var doomed []kernel.Address
	for _, o := range ops {
		d.forget(o.Meta) // first, or we take the event for news
		d.shared.Forget(o.Meta.LinkRef, o.Meta.Prefix)
		for _, a := range there {
			if a.Prefix == o.Meta.Prefix && d.mayDelete(o) {
				doomed = append(doomed, a)
			}
		}
	}
	if err = d.remove(link, doomed, there...); err != nil {
		for _, o := range ops {
			d.note(o.Meta, o.Key, o.Value)
		}
	}
	return err
}

// mayDelete: all on our own link, elsewhere what the ledger names.
func (d *address) mayDelete(o *op) bool {
	if e, recorded := d.Owner.Entry(string(o.Key)); recorded && e.NS == o.Meta.NS && e.Index == o.Meta.Index {
		return true
	}
	v, link, ok := d.Interfaces.Get(scheduler.Key(models.InterfaceKey(o.Value.GetInterface())))
	return ok && link == o.Meta.LinkRef && exclusive(v)
}

// remove deletes addresses of one link and puts back those that the kernel
// drops with them. there is what was on the link; without it, it is read.
func (d *address) remove(link kernel.LinkRef, doomed []kernel.Address, there ...kernel.Address) (err error) {
	if len(doomed) == 0 {
		return nil
	}
	if there == nil {
		if there, err = d.Kernel.Addresses(link.NS, link.Index); err != nil {
			return err
		}
	}
	stay := survivors(doomed, there)
	if len(stay) > 0 {
		defer d.promote(link)()
	}
	// Secondary ones first: they would go with their primary anyway.
	slices.SortStableFunc(doomed, func(a, b kernel.Address) int { return rank(a) - rank(b) })
	for _, a := range doomed {
		if err := d.Kernel.DeleteAddress(link.NS, a); kernel.IsGone(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("delete %s: %w", a.Prefix, err)
		}
	}
	return d.putBack(link, stay)
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

// survivors are the addresses that should be there after the deletion, but of
// which the kernel may have dropped some: IPv4, in the network of a primary.
func survivors(doomed, there []kernel.Address) []kernel.Address {
	var list []kernel.Address
	for _, a := range there {
		going := slices.ContainsFunc(doomed, func(x kernel.Address) bool { return x.Prefix == a.Prefix })
		touched := slices.ContainsFunc(doomed, func(x kernel.Address) bool {
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
