package nftables

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/scheduler"
)

// generations are what is known of the tables of a namespace in which there are some of
// ours. They are changed one by one, and the kernel counts: while as many changes were
// made as we have made ourselves, nobody else has made one.
type generations struct {
	known   uint32 // with which all tables of ours were read, or are about to be
	own     uint32 // changes of ours since, while writing goes on
	writing int    // how many of our operations go on
	ours    uint32 // changes of ours since we know of the namespace

	// commits is held by each change of ours until it is counted, so that whoever counts
	// those of others waits for it.
	commits sync.RWMutex
}

// see notes that a table of ours is in a namespace, or is about to be. What happens to it
// from then on is news.
func (d *nftables) see(ns kernel.NS, k scheduler.Key) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Each time: the namespace may have been closed and opened before we watched.
	if err := d.Kernel.WatchTables(ns); err != nil {
		return err
	}
	if d.at[ns] == nil {
		now, err := d.Tables.Generation(ns)
		if err != nil {
			d.Kernel.UnwatchTables(ns)
			return err
		}
		d.at[ns] = &generations{known: now}
	}
	d.seen.Note(ns, k, k)
	return nil
}

func (d *nftables) forget(e kernel.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen.Forget(e.NS, scheduler.Key(e.ID))
	delete(d.names, scheduler.Key(e.ID))
	if d.at[e.NS] != nil && len(d.keysIn(e.NS, false)) == 0 {
		d.Kernel.UnwatchTables(e.NS)
		delete(d.at, e.NS)
	}
}

// change makes a change of the tables of a namespace. Its event is no news, if nobody else
// has made a change meanwhile.
func (d *nftables) change(ns kernel.NS, act func() error) error {
	g := d.begin(ns)
	g.commits.RLock()
	err := act()
	notify, keys := d.end(ns, err == nil)
	g.commits.RUnlock()
	if len(keys) > 0 {
		notify(keys...)
	}
	return err
}

func (d *nftables) begin(ns kernel.NS) *generations {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.at[ns]
	if g == nil {
		return &generations{} // nobody watches it
	}
	g.writing++
	return g
}

// byOthers counts the changes that others have made in a namespace, from any number on.
func (d *nftables) byOthers(ns kernel.NS) (uint32, error) {
	d.mu.Lock()
	g := d.at[ns]
	d.mu.Unlock()
	if g == nil {
		return 0, fmt.Errorf("the namespace of the table: %w", kernel.ErrNoNamespace)
	}
	g.commits.Lock()
	defer g.commits.Unlock()
	now, err := d.Tables.Generation(ns)
	return now - g.ours, err
}

// end returns whom to tell of which keys, if somebody else has made a change.
func (d *nftables) end(ns kernel.NS, changed bool) (notify owned.Notify, keys []scheduler.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.at[ns]
	if g == nil || g.writing == 0 {
		return nil, nil // the namespace is gone, or has been
	}
	if changed {
		g.own++
		g.ours++
	}
	if g.writing--; g.writing > 0 {
		return nil, nil
	}
	now, err := d.Tables.Generation(ns)
	alone := err == nil && now == g.known+g.own
	g.known, g.own = now, 0
	if alone || d.notify == nil {
		return nil, nil
	}
	return d.notify, d.keysIn(ns, false)
}

func (d *nftables) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	d.tell(notify)
	defer d.tell(nil)
	var polls sync.WaitGroup
	defer polls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	polls.Go(func() { _ = owned.Poll(ctx, d.Poll, namesPoll, d.accountsMoved, notify) })
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *nftables) tell(notify owned.Notify) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notify = notify
}

func (d *nftables) heard(e kernel.Event) owned.News {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case e.Gone:
		delete(d.at, e.NS)
		keys := d.keysIn(e.NS, true)
		for _, k := range keys {
			delete(d.names, k)
		}
		return owned.NewsOf(keys...)
	case e.Lost:
		return owned.NewsOf(d.keysIn(e.NS, false)...)
	case e.Link != nil:
		return owned.NewsOf(d.linkMoved(e.NS, *e.Link, e.Deleted)...)
	case e.Tables != nil:
		return d.moved(e.NS, e.Tables.Generation)
	}
	return owned.News{}
}

// moved is what a change means. By whom it was made is not told: while we write, the end
// of that tells.
func (d *nftables) moved(ns kernel.NS, generation uint32) owned.News {
	g := d.at[ns]
	if g == nil || g.writing > 0 || int32(generation-g.known) <= 0 {
		return owned.News{}
	}
	g.known = generation
	return owned.NewsOf(d.keysIn(ns, false)...)
}

// keysIn are the keys with a table in the namespace, sorted. If it is gone all are
// forgotten.
func (d *nftables) keysIn(ns kernel.NS, gone bool) []scheduler.Key {
	keys := d.seen.Of(func(at kernel.NS) bool { return at == ns }, gone)
	slices.Sort(keys)
	return keys
}
