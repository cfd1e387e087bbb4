package neighbor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

func (d *neighbor) prepare(ctx context.Context, o *op) (job owned.Job[kernel.LinkRef], err error) {
	ref, err := kind.LinkOf(d.Interfaces, o.Value.GetInterface())
	if err != nil {
		return job, err
	}
	n := kernel.Neighbor{Index: ref.Index, Address: address(o.Value), MAC: mac(o.Value), Protocol: d.Owner.Protocol()}
	e := d.entry(o.Key, o.Value, ref)
	before, had := d.Owner.Entry(e.ID)
	recorded := had && before.NS == e.NS && spotOf(before) == spotOf(e)
	if by, there := d.others(e, n); there && o.Value.GetAdopt() && !recorded {
		return owned.Job[kernel.LinkRef]{
			Entries: []kernel.Entry{e.TakeOver(by)},
			Make: func() (kernel.LinkRef, error) {
				d.note(ref.NS, n, o.Key, n.MAC)
				return ref, nil
			},
		}, nil
	}
	return owned.Job[kernel.LinkRef]{
		Entries: []kernel.Entry{e},
		Make: func() (kernel.LinkRef, error) {
			if err := ctx.Err(); err != nil {
				return ref, err
			}
			return ref, d.make(o.Key, ref.NS, n, recorded, before)
		},
	}, nil
}

// others is who made an equal neighbor, if that was people.
func (d *neighbor) others(e kernel.Entry, n kernel.Neighbor) (protocol uint8, there bool) {
	o, err := d.Kernel.Neighbor(e.NS, n.Index, n.Address)
	return o.Protocol, err == nil && kernel.ByPeople(o.Protocol) && o.MAC == n.MAC
}

// standing is for readings; see [owned.Objects].
func (d *neighbor) standing(_ context.Context, k scheduler.Key, v *models.Neighbor) (e kernel.Entry, there bool) {
	ref, err := kind.LinkOf(d.Interfaces, v.GetInterface())
	if err != nil || !v.GetAdopt() {
		return e, false
	}
	n := kernel.Neighbor{Index: ref.Index, Address: address(v), MAC: mac(v)}
	e = d.entry(k, v, ref)
	by, there := d.others(e, n)
	return e.TakeOver(by), there
}

func (d *neighbor) entry(k scheduler.Key, v *models.Neighbor, ref kernel.LinkRef) kernel.Entry {
	e := kernel.Entry{ID: string(k), NS: ref.NS, Index: ref.Index, Mark: address(v).String(), Value: models.Encode(v)}
	if link, ok := d.Owner.Entry(models.InterfaceKey(v.GetInterface())); ok {
		e.NSPath = link.NSPath
	}
	return e
}

// make makes a neighbor. recorded says that the ledger named it before, and how.
func (d *neighbor) make(k scheduler.Key, ns kernel.NS, n kernel.Neighbor, recorded bool, before kernel.Entry) error {
	d.note(ns, n, k, n.MAC) // first, or we take the event for news
	err := d.Kernel.AddNeighbor(ns, n)
	if errors.Is(err, kernel.ErrExist) {
		err = d.clash(ns, n, recorded, before)
	}
	if err != nil {
		d.note(ns, n, k, "") // whatever happens to the one that stands there is news
		if !recorded {
			d.Owner.Remove(string(k))
		}
		return err
	}
	return d.Owner.Hit("neighbor/made")
}

// clash looks at what has the address. Ours by the ledger is brought into shape; ours by
// its number and equal is success; else it is a conflict.
func (d *neighbor) clash(ns kernel.NS, n kernel.Neighbor, recorded bool, before kernel.Entry) error {
	there, err := d.Kernel.Neighbor(ns, n.Index, n.Address)
	switch ours := there.Protocol == n.Protocol; {
	case err != nil:
		return err
	case ours && there.MAC == n.MAC:
		return nil
	case recorded && d.Owner.Bears(before, there.Protocol):
		return d.Kernel.ReplaceNeighbor(ns, n)
	}
	return scheduler.Conflict("somebody else", fmt.Errorf("%s has a neighbor already, %s, which is not of this key; remove it with: ip neigh del", n.Address, there.MAC))
}

func (d *neighbor) delete(_ context.Context, k scheduler.Key, _ *models.Neighbor, _ kernel.LinkRef) error {
	return d.objects.DeleteRecorded(k, func(e kernel.Entry) error {
		at := spotOf(e)
		if _, taken := e.TakenOver(); taken { // it stays: it goes back to those who made it
			d.have.Forget(e.NS, at)
			return nil
		}
		n, err := d.Kernel.Neighbor(e.NS, at.index, at.address)
		if err != nil || n.Protocol != d.Owner.Protocol() {
			return err // another one is in its place
		}
		d.have.Forget(e.NS, at) // first, or we take the event for news
		if err := d.Kernel.DeleteNeighbor(e.NS, n); err != nil && !kernel.IsGone(err) {
			d.note(e.NS, n, k, "")
			return err
		}
		return nil
	})
}

// spotOf is where the neighbor of an entry of the ledger is.
func spotOf(e kernel.Entry) spot {
	a, _ := netip.ParseAddr(e.Mark)
	return spot{index: e.Index, address: a}
}

func (d *neighbor) note(ns kernel.NS, n kernel.Neighbor, k scheduler.Key, mac string) {
	d.have.Note(ns, spot{n.Index, n.Address}, held{key: k, mac: mac})
}

func (d *neighbor) forgetEntry(e kernel.Entry) { d.have.Forget(e.NS, spotOf(e)) }
