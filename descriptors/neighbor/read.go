package neighbor

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the neighbors that the ledger names.
func (d *neighbor) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	dumps := owned.Dumps[bySpot]{Read: d.neighbors}
	return d.objects.Retrieve(ctx, s, func(e kernel.Entry) (*models.Neighbor, kernel.LinkRef, error) {
		ref := kernel.LinkRef{NS: e.NS, Index: e.Index}
		all, err := dumps.Of(e.NS)
		if err != nil {
			return nil, ref, fmt.Errorf("read the neighbors of its namespace: %w", err)
		}
		n, there := all[spotOf(e)]
		if !there || !d.Owner.Bears(e, n.Protocol) {
			return nil, ref, kernel.ErrNotExist
		}
		if !s.ReadOnly {
			d.note(e.NS, n, scheduler.Key(e.ID), n.MAC)
		}
		return &models.Neighbor{Interface: d.Owner.LinkName(d.Kernel, d.Names, ref), Address: n.Address.String(), MacAddress: n.MAC, Adopt: n.Protocol != d.Owner.Protocol()}, ref, nil
	})
}

// bySpot are the neighbors of a namespace that carry our number or may have been taken over.
type bySpot map[spot]kernel.Neighbor

func (d *neighbor) neighbors(ns kernel.NS) (bySpot, error) {
	all, err := d.Kernel.Neighbors(ns)
	ours := bySpot{}
	for _, n := range all {
		if n.Protocol == d.Owner.Protocol() || kernel.ByPeople(n.Protocol) {
			ours[spot{n.Index, n.Address}] = n
		}
	}
	return ours, err
}

// watch turns the kernel's events into keys. Neighbors that go with their link, or because
// it goes down, are told of one by one.
func (d *neighbor) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *neighbor) heard(e kernel.Event) owned.News {
	switch {
	case e.Lost, e.Gone:
		return owned.NewsOf(d.keysIn(e.NS, e.Gone)...)
	case e.Neighbor != nil:
		return d.news(e.NS, *e.Neighbor, e.Deleted)
	}
	return owned.News{}
}

// news is what an event says that is not believed.
func (d *neighbor) news(ns kernel.NS, n kernel.Neighbor, deleted bool) owned.News {
	h, known := d.have.Get(ns, spot{n.Index, n.Address})
	if !known || !deleted && h.mac == n.MAC && n.Protocol == d.Owner.Protocol() {
		return owned.News{}
	}
	d.note(ns, n, h.key, "") // until it is read
	return owned.NewsOf(h.key)
}

// keysIn are the keys with a neighbor in the namespace, sorted. If it is gone all are
// forgotten.
func (d *neighbor) keysIn(ns kernel.NS, gone bool) (keys []scheduler.Key) {
	for _, h := range d.have.Of(func(at kernel.NS) bool { return at == ns }, gone) {
		keys = append(keys, h.key)
	}
	slices.Sort(keys)
	return keys
}
