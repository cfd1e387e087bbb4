package iface

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// prepare finds all that the creation works with, and what the ledger must say
// before it. The first end of a veth speaks for both.
func (d *iface) prepare(ctx context.Context, o *op) (job owned.Job[kernel.LinkRef], err error) {
	if err := d.leaving(o.Key, o.Value); err != nil {
		return job, err
	}
	w, err := d.resolve(ctx, o.Key, o.Value)
	if err != nil {
		return job, err
	}
	if l, there := d.standing(ctx, w); there {
		e, err := d.entryOf(w, l)
		job.Entries = []kernel.Entry{e}
		job.Make = func() (kernel.LinkRef, error) { return d.keepTaken(w, l) }
		return job, err
	}
	if w.taken != nil {
		if l, err := d.Kernel.Link(w.place.NS, w.host); err != nil || !taken(w.recorded, l) {
			w.taken = nil // what was taken over has gone: it is made
		}
	}
	if adopts(w.value) {
		return d.prepareAdoption(ctx, w)
	}
	entries := []kernel.Entry{w.entry()}
	if cable := w.value.GetVeth(); cable != nil {
		if w.peer, err = d.peerWish(ctx, keyOf(cable.GetPeer())); err != nil {
			return job, err
		}
		w.peer.taken = nil
		if err := d.leaving(w.peer.key, w.peer.value); err != nil {
			return job, err
		}
		if makesPair(w.key, w.peer.key) {
			entries = append(entries, w.peer.entry())
		}
	}
	b := owned.BatchOf(ctx, newBatch)
	b.wishes = append(b.wishes, w)
	return owned.Job[kernel.LinkRef]{Entries: entries, Make: func() (kernel.LinkRef, error) {
		d.makeAll(ctx, b)
		return w.link.Ref(), cmp.Or(w.err, w.incomplete)
	}}, nil
}

// createBatch makes many links with one write to the ledger, and with few calls of the kernel.
func (d *iface) createBatch(ctx context.Context, ops []*op) {
	d.objects.CreateBatch(owned.WithBatch(ctx, newBatch()), ops)
}

// batch are links that are prepared, and still to be made.
type batch struct{ wishes []*wish }

func newBatch() *batch { return &batch{} }

// leaving says why nothing is to be made any more although it is wanted; see [Deps].
func (d *iface) leaving(k scheduler.Key, v *models.Interface) error {
	if d.Leaving == nil {
		return nil
	}
	return d.Leaving(k, v)
}

// makeAll makes what the batch has still to make, all of a namespace together.
func (d *iface) makeAll(ctx context.Context, b *batch) {
	slices.SortStableFunc(b.wishes, func(a, b *wish) int { return cmp.Compare(a.place.NS, b.place.NS) })
	for len(b.wishes) > 0 {
		ns, n := b.wishes[0].place.NS, 1
		for n < len(b.wishes) && b.wishes[n].place.NS == ns {
			n++
		}
		some := b.wishes[:n]
		b.wishes = b.wishes[n:]
		d.finish(ns, d.make(ctx, ns, some))
		if gone := d.lost(some); len(gone) > 0 {
			d.finish(ns, d.make(ctx, ns, gone))
		}
	}
}

// make makes links in a namespace, but for the ends of cables that are there already. It
// returns those that are to be finished.
func (d *iface) make(ctx context.Context, ns kernel.NS, ws []*wish) (made []*wish) {
	var asked []*wish
	var specs []kernel.LinkSpec
	d.findOtherEnds(ns, ws)
	all := d.allRedirects()
	for _, w := range ws {
		if w.err = ctx.Err(); w.err != nil {
			continue
		}
		if w.link.Index != 0 {
			made = append(made, w)
			continue
		}
		spec, err := w.spec(d.Owner.Group())
		if w.err = err; err != nil {
			d.unrecord(w)
			continue
		}
		all.forbid(ns, &spec.Accepts, *spec.Accepts.Redirects4)
		if spec.Veth != nil {
			all.forbid(spec.Veth.PeerNS, &spec.Veth.PeerAccepts, *spec.Veth.PeerAccepts.Redirects4)
		}
		d.keepMACs(w, &spec)
		asked, specs = append(asked, w), append(specs, spec)
	}
	links, errs := d.Kernel.AddLinks(ns, specs)
	for i, w := range asked {
		if w.link, w.err = d.made(w, specs[i], links[i], errs[i]); w.err != nil {
			w.link = kernel.Link{}
			d.unrecord(w)
			continue
		}
		if errs[i] == nil {
			if w.far = farEnd(specs[i], links[i]); w.far != nil {
				d.noteLink(w.peer.key, *w.far)
			}
		}
		d.noteLink(w.key, w.link)
		if w.err = d.Owner.Hit("interface/made"); w.err == nil {
			made = append(made, w)
		}
	}
	return made
}

// unrecord takes back what the ledger was told in vain.
func (d *iface) unrecord(w *wish) {
	if w.recorded == nil {
		d.Owner.Remove(string(w.key))
	}
	if p := w.peer; p != nil && p.recorded == nil {
		d.Owner.Remove(string(p.key))
	}
}

// made is the link that the kernel has made, or that of an earlier attempt that was cut short.
func (d *iface) made(w *wish, spec kernel.LinkSpec, l kernel.Link, err error) (kernel.Link, error) {
	if errors.Is(err, kernel.ErrExist) {
		old, usable, clash := d.clear(w)
		if clash != nil || usable {
			return old, clash
		}
		l, err = d.Kernel.AddLink(w.place.NS, spec)
	}
	if errors.Is(err, syscall.EADDRINUSE) && spec.MAC != "" && w.value.GetMacAddress() == "" {
		spec.MAC = "" // the last one: the kernel has not yet removed the macvlan of a namespace that ended
		l, err = d.Kernel.AddLink(w.place.NS, spec)
	}
	if errors.Is(err, kernel.ErrExist) {
		if taken := d.sameTunnel(w, spec); taken != nil {
			return l, taken
		}
	}
	if err != nil {
		return l, explain(w, "create", d.onParent(w, err))
	}
	return l, nil
}

// clear looks at what has the name. Ours is taken as it is, or removed if it
// cannot become what is asked; foreign is a conflict. For a veth the name of
// the other end may be the one that is taken.
func (d *iface) clear(w *wish) (l kernel.Link, usable bool, err error) {
	l, err = d.Kernel.Link(w.place.NS, w.host)
	switch {
	case errors.Is(err, kernel.ErrNotExist):
	case err != nil:
		return l, false, explain(w, "read", err)
	case !d.ours(w.key, l, w.recorded):
		return l, false, d.conflict(w, l)
	default:
		actual := d.value(w.key, l, w.value.GetNamespace(), w.value)
		if compare(w.key, actual, w.value).Change != scheduler.Replace {
			return l, true, nil
		}
		if err := d.remove(l.Ref()); err != nil {
			return l, false, explain(w, "remove the old", err)
		}
	}
	if w.peer == nil {
		return l, false, nil
	}
	p, err := d.Kernel.Link(w.peer.place.NS, w.peer.host)
	switch {
	case errors.Is(err, kernel.ErrNotExist):
		return l, false, nil
	case err != nil:
		return l, false, explain(w.peer, "read", err)
	case !d.ours(w.peer.key, p, w.peer.recorded):
		return l, false, d.conflict(w.peer, p)
	}
	return l, false, d.remove(p.Ref())
}

// finish makes links of ours in a namespace as wished and keeps them.
func (d *iface) finish(ns kernel.NS, ws []*wish) {
	var changing []*wish
	var changes []kernel.LinkChange
	for _, w := range ws {
		d.busy(w.link.Ref(), w.key)
		d.keepFar(w)
		p, err := d.ready(w, &w.link)
		switch {
		case err != nil:
			w.err = err
		case p == (kernel.LinkPatch{}):
			w.err = d.setLink(w, w.link, p)
		default:
			changing, changes = append(changing, w), append(changes, kernel.LinkChange{Index: w.link.Index, Patch: p})
		}
	}
	for i, err := range d.Kernel.SetLinks(ns, changes) {
		if err != nil {
			changing[i].err = explain(changing[i], "set up", d.onParent(changing[i], err))
		}
	}
	for _, w := range ws {
		if w.err == nil {
			w.err = d.complete(w, w.link)
		}
		if w.err == nil {
			w.err = d.Owner.Hit("interface/marked")
		}
	}
	var own []kernel.OwnLink
	for _, w := range ws {
		if w.err == nil {
			own = append(own, kernel.OwnLink{Link: w.link, Key: string(w.key)})
		}
	}
	d.Owner.Saw(own...)
	for _, w := range ws {
		if w.err != nil {
			d.settle(w.link.Ref(), nil)
		} else {
			d.settle(w.link.Ref(), w.value)
		}
	}
	d.announceSetUp(ws)
}

// apply changes what is not as wished.
func (d *iface) apply(w *wish, l kernel.Link) error {
	p, err := d.ready(w, &l)
	if err == nil {
		err = d.setLink(w, l, p)
	}
	if err == nil {
		err = d.complete(w, l)
	}
	if err == nil {
		d.announceMoved(l, p)
	}
	return err
}

// ready does what must come before the patch that makes a link as wished, and returns that.
func (d *iface) ready(w *wish, l *kernel.Link) (p kernel.LinkPatch, err error) {
	if err := d.join(w, l); err != nil {
		return p, explain(w, "join the bond", err)
	}
	if err := d.setUpType(w, l); err != nil {
		return p, explain(w, "set up", err)
	}
	if err := d.removeAltNames(*l, w.stale); err != nil { // it may become the name of the link
		return p, explain(w, "set up", err)
	}
	p = w.patch(*l, d.Owner.Group())
	p.Accepts = d.lackingAccepts(w, *l)
	return p, nil
}

// setLink patches a link. It always asks the kernel something: a link that was deleted before
// we kept it must not count as made.
func (d *iface) setLink(w *wish, l kernel.Link, p kernel.LinkPatch) error {
	if p == (kernel.LinkPatch{}) {
		if _, err := d.Kernel.LinkByIndex(l.NS, l.Index); err != nil {
			return explain(w, "read back", err)
		}
	} else if err := d.Kernel.SetLink(l.NS, l.Index, p); err != nil {
		return explain(w, "set up", d.onParent(w, err))
	}
	return nil
}

// complete does what takes more than a patch, and comes after it.
func (d *iface) complete(w *wish, l kernel.Link) error {
	if err := d.setVLANs(w.value, l); err != nil {
		return explain(w, "set the VLANs of", err)
	}
	if err := d.addAltNames(w.value, l); err != nil {
		return explain(w, "give its names to", err)
	}
	d.setOffloads(w, l)
	return nil
}

// setUpType does what of the type takes more than a patch.
func (d *iface) setUpType(w *wish, l *kernel.Link) error {
	switch w.value.GetLink().(type) {
	case *models.Interface_Wireguard:
		return d.setWireGuard(w, *l)
	case *models.Interface_Bond:
		return d.setLACPRate(w, l)
	case *models.Interface_Vxlan:
		return d.setFlood(w, *l)
	}
	return nil
}

// update changes a link in place. If it is to be exclusive from now on, or no longer, its addresses are
// read again.
func (d *iface) update(ctx context.Context, k scheduler.Key, from, to *models.Interface, ref kernel.LinkRef) (kernel.LinkRef, error) {
	at, err := d.updateLink(ctx, k, from, to, ref)
	if err == nil && from.RemovesAddresses() != to.RemovesAddresses() {
		d.Names.Renew(at)
	}
	return at, err
}

// updateLink changes a link in place, starting from what the kernel has.
func (d *iface) updateLink(ctx context.Context, k scheduler.Key, from, to *models.Interface, ref kernel.LinkRef) (kernel.LinkRef, error) {
	w, err := d.resolve(ctx, k, to)
	if err != nil {
		return ref, err
	}
	w.there = true
	w.follow(from)
	l, err := d.Kernel.LinkByIndex(ref.NS, ref.Index)
	if err != nil {
		return ref, explain(w, "read", err)
	}
	if w.place.NS != ref.NS { // it was not known how its namespace is called
		return ref, fmt.Errorf("it is in the namespace %d, and not in %s, which is %d", ref.NS, to.GetNamespace().Text(), w.place.NS)
	}
	defer d.Owner.Begin(string(k))()
	if adopts(to) {
		return d.readopt(w, l)
	}
	if !d.ours(k, l, w.recorded) {
		return ref, fmt.Errorf("%w: the link %s no longer bears our mark", d.conflict(w, l), l.Name)
	}
	before := w.entryBefore()
	if !to.GetAdopt() {
		w.taken = nil // from now on it is ours
	}
	after := w.entry()
	if err := d.Owner.Record(before); err != nil {
		return ref, err
	}
	d.busy(ref, k)
	err = d.apply(w, l)
	if err == nil && !(bytes.Equal(before.Value, after.Value) && before.Mark == after.Mark) {
		err = d.Owner.Record(after)
	}
	if err != nil {
		d.settle(ref, nil)
		return ref, err
	}
	d.settle(ref, to)
	return ref, w.incomplete
}
