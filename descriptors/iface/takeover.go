package iface

import (
	"context"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// A link that others made, and that is as a value with adopt says, is taken over as it is:
// the ledger notes it by its index, as it does for the types existing and loopback, and it
// gets no mark. It is changed like a link of ours, and given back in the end.

// standing is the link of others that a wish takes over as it is.
func (d *iface) standing(ctx context.Context, w *wish) (l kernel.Link, there bool) {
	if !w.value.GetAdopt() && !(d.Shadow && adopts(w.value)) {
		return l, false
	}
	l, err := d.Kernel.Link(w.place.NS, w.host)
	if err != nil || l.Name != w.host || kernel.IsMark(l.Alias) {
		return l, false
	}
	if adopts(w.value) {
		return l, d.Shadow && d.changesNothing(w, l)
	}
	if beyond(l) || d.ours(w.key, l, w.recorded) || !d.hasPeer(ctx, w, l) {
		return l, false
	}
	actual := d.value(w.key, l, w.value.GetNamespace(), w.value)
	actual.Adopt = true // what it accepts is left as it is
	return l, compare(w.key, actual, w.value).Change == scheduler.Same
}

// hasPeer reports whether the other end of a cable is where that is wanted.
func (d *iface) hasPeer(ctx context.Context, w *wish, l kernel.Link) bool {
	if w.value.GetVeth() == nil {
		return true
	}
	p, err := d.peerWish(ctx, keyOf(w.value.GetVeth().GetPeer()))
	if err != nil {
		return false
	}
	other, err := d.Kernel.Link(p.place.NS, p.host)
	return err == nil && l.Type == "veth" && other.Ref() == kernel.LinkRef{NS: l.ParentNS, Index: l.Parent}
}

// changesNothing reports whether the adoption of an existing link leaves it as it is.
func (d *iface) changesNothing(w *wish, l kernel.Link) bool {
	want, now := d.asked(w.value), d.current(l)
	return w.value.BridgePort == nil && len(lackingNumbers(want.Accepts, currentAccepts(l))) == 0 && len(want.AltNames)+len(want.Features) == 0 && want.RX == nil && want.TX == nil &&
		so(want.Up, now.Up) && so(want.MTU, now.MTU) && so(want.MAC, now.MAC) && so(want.Master, now.Master)
}

// so reports whether a setting is as asked, if it is.
func so[T comparable](want, now *T) bool { return want == nil || now != nil && *want == *now }

// entryOf is what the ledger says of a link that is taken over.
func (d *iface) entryOf(w *wish, l kernel.Link) (kernel.Entry, error) {
	if adopts(w.value) {
		a, err := d.adoptionOf(w, l)
		return a.entry, err
	}
	e := w.entry().Adopt(l)
	e.Prior = models.Encode(d.value(w.key, l, w.value.GetNamespace(), w.value))
	return e, nil
}

// taken reports whether a link was taken over for a key by its entry in the ledger.
func taken(e *kernel.Entry, l kernel.Link) bool {
	return e != nil && e.Adopted() && e.NS == l.NS && e.Index == l.Index
}

// isTaken asks the ledger.
func (d *iface) isTaken(k scheduler.Key, l kernel.Link) bool {
	e, recorded := d.Owner.Entry(string(k))
	return recorded && taken(&e, l)
}

// keepTaken begins to keep a link that is taken over. Nothing is written.
func (d *iface) keepTaken(w *wish, l kernel.Link) (kernel.LinkRef, error) {
	ref := l.Ref()
	d.busy(ref, w.key)
	err := d.Owner.Hit("interface/adopted")
	d.settle(ref, w.value)
	return ref, err
}

// returnTaken gives a link back as it was found, as far as that can be.
func (d *iface) returnTaken(ctx context.Context, k scheduler.Key, l kernel.Link) error {
	e, _ := d.Owner.Entry(string(k))
	found, err := models.DecodeValue[*models.Interface](e.Prior)
	if err != nil {
		return nil // a release that knows more wrote it; it stays as it is
	}
	if compare(k, d.value(k, l, found.GetNamespace(), found), found).Change == scheduler.Same {
		return nil
	}
	w, err := d.resolve(ctx, k, found)
	if err != nil {
		return nil // its master has gone, or its namespace is called otherwise
	}
	w.taken = &e
	return d.apply(w, l)
}

// standingFor is the link that a key would take over, by its wanted value alone: what that
// stands on may not be in place yet.
func (r *search) standingFor(k scheduler.Key) (w *wish, l kernel.Link, there bool) {
	v := r.hints(k).wanted
	if v == nil || !v.GetAdopt() && !(r.d.Shadow && adopts(v)) {
		return nil, l, false
	}
	place, err := r.d.Places.Resolve(r.ctx, v.GetNamespace())
	if err != nil {
		return nil, l, false
	}
	w = r.d.newWish(k, v, place)
	l, there = r.d.standing(r.ctx, w)
	return w, l, there
}

// takeOver has a reading find what stands there as it is wanted. So also an agent that does
// nothing sees it.
func (r *search) takeOver(k scheduler.Key) (kernel.Link, bool) {
	w, l, there := r.standingFor(k)
	if !there || r.readOnly {
		return l, there
	}
	e, err := r.d.entryOf(w, l)
	return l, err == nil && r.d.Owner.Record(e) == nil
}
