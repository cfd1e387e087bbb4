package fdb

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

// retrieve reads the entries that the ledger names.
func (d *fdb) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	dumps := owned.Dumps[byPlace]{Read: d.entries}
	return d.objects.Retrieve(ctx, s, func(e kernel.Entry) (*models.FDB, kernel.LinkRef, error) {
		ref := kernel.LinkRef{NS: e.NS, Index: e.Index}
		all, err := dumps.Of(e.NS)
		if err != nil {
			return nil, ref, fmt.Errorf("read the forwarding entries of its namespace: %w", err)
		}
		recorded := recordOf(e)
		there := all[recorded.Place()]
		key := scheduler.Key(e.ID)
		if !isOurs(recorded, there) || d.inUse(key, e.NS, there) != nil {
			return nil, ref, kernel.ErrNotExist
		}
		v := &models.FDB{MacAddress: there.MAC, Vlan: uint32(there.VLAN)}
		if there.Port != 0 {
			ref.Index = there.Port
		} else {
			v.Address = there.Address.String()
		}
		v.Interface = d.Owner.LinkName(d.Kernel, d.Names, ref)
		if !s.ReadOnly {
			d.note(e.NS, there, key, there)
		}
		return v, ref, nil
	})
}

// byPlace are the entries of a namespace that somebody has set.
type byPlace map[kernel.FDBPlace]kernel.FDBEntry

func (d *fdb) entries(ns kernel.NS) (byPlace, error) {
	list, err := d.Kernel.FDB(ns)
	all := byPlace{}
	for _, e := range list {
		if had, twice := all[e.Place()]; !twice || had.Special {
			all[e.Place()] = e
		}
	}
	return all, err
}

// watch turns the kernel's events into keys. Entries that go with their link, or because it
// leaves its bridge, are told of one by one.
func (d *fdb) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *fdb) heard(e kernel.Event) owned.News {
	switch {
	case e.Lost, e.Gone:
		return owned.NewsOf(d.keysIn(e.NS, e.Gone)...)
	case e.FDB != nil:
		return d.news(e.NS, *e.FDB, e.Deleted)
	}
	return owned.News{}
}

// news is what an event says that is not believed.
func (d *fdb) news(ns kernel.NS, e kernel.FDBEntry, deleted bool) owned.News {
	h, known := d.have.Get(ns, e.Place())
	if !known || !deleted && h.entry == e {
		return owned.News{}
	}
	d.note(ns, e, h.key, kernel.FDBEntry{}) // until it is read
	return owned.NewsOf(h.key)
}

// keysIn are the keys with an entry in the namespace, sorted. If it is gone all are
// forgotten.
func (d *fdb) keysIn(ns kernel.NS, gone bool) (keys []scheduler.Key) {
	for _, h := range d.have.Of(func(at kernel.NS) bool { return at == ns }, gone) {
		keys = append(keys, h.key)
	}
	slices.Sort(keys)
	return keys
}
