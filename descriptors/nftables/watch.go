package nftables

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/watch"
	"github.com/plumb-net/plumb/scheduler"
)

// every is how often the kernel is asked whether somebody has changed tables.
const every = 10 * time.Second

// sight is a namespace with tables of ours, as it was when one was last read.
type sight struct {
	generation uint32
	keys       map[scheduler.Key]bool
}

// see notes that a table of ours is in a namespace.
func (d *nftables) see(ns kernel.NS, k scheduler.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[ns] == nil {
		d.seen[ns] = &sight{keys: map[scheduler.Key]bool{}}
	}
	d.seen[ns].keys[k] = true
}

func (d *nftables) forget(ns kernel.NS, k scheduler.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.seen[ns]; s != nil {
		if delete(s.keys, k); len(s.keys) == 0 {
			delete(d.seen, ns)
		}
	}
}

func (d *nftables) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return watch.Poll(ctx, d.Poll, every, d.moved, notify)
}

// moved are the keys of namespaces in which any table has changed since the last
// time, by whomever: to tell by whom, nft has to be run.
func (d *nftables) moved(context.Context) (moved []scheduler.Key) {
	d.mu.Lock()
	places := slices.Sorted(maps.Keys(d.seen))
	d.mu.Unlock()
	for _, ns := range places {
		now, err := d.Tables.Generation(ns)
		d.mu.Lock()
		if s := d.seen[ns]; s != nil && (err != nil || s.generation != now) {
			s.generation = now
			moved = slices.AppendSeq(moved, maps.Keys(s.keys))
		}
		d.mu.Unlock()
	}
	slices.Sort(moved)
	return moved
}
