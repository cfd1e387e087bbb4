package nftables

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/scheduler"
)

// see notes that a table of ours is in a namespace.
func (d *nftables) see(ns kernel.NS, k scheduler.Key) { d.seen.Note(ns, k, table{ns, k}) }

func (d *nftables) forget(e kernel.Entry) { d.seen.Forget(e.NS, scheduler.Key(e.ID)) }

func (d *nftables) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return owned.Poll(ctx, d.Poll, owned.Every, d.moved, notify)
}

// moved are the keys of namespaces in which any table has changed since the last
// time, by whomever: to tell by whom, nft has to be run.
func (d *nftables) moved(context.Context) (moved []scheduler.Key) {
	now, changed := map[kernel.NS]uint32{}, map[kernel.NS]bool{}
	for _, t := range d.seen.All() {
		if _, asked := now[t.ns]; !asked {
			var err error
			now[t.ns], err = d.Tables.Generation(t.ns)
			changed[t.ns] = err != nil || now[t.ns] != d.generation[t.ns]
		}
		if changed[t.ns] {
			moved = append(moved, t.key)
		}
	}
	d.generation = now
	slices.Sort(moved)
	return moved
}
