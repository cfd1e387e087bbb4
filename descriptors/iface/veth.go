package iface

import (
	"context"
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// veth is one end of a virtual cable.
type veth struct{ fixed }

// needs: the two ends go together. The end with the larger key also comes
// after the other, which makes the pair.
func (veth) needs(k scheduler.Key, v *models.Interface) []scheduler.Need {
	peer := keyOf(v.GetVeth().GetPeer())
	list := []scheduler.Need{scheduler.Together(peer, "the other end of the cable", func(other *models.Interface) error {
		return pointsBack(k, peer, other)
	})}
	if !makesPair(k, peer) {
		list = append(list, kind.OnInterface(nameOf(peer), "the end that makes the cable"))
	}
	return list
}

func makesPair(k, peer scheduler.Key) bool { return k < peer }

func pointsBack(k, peer scheduler.Key, other *models.Interface) error {
	switch back := other.GetVeth(); {
	case back == nil:
		return scheduler.Invalid("veth.peer", "%s is of type %s; it must be a veth with the peer %s", peer, other.LinkType(), nameOf(k))
	case back.GetPeer() != nameOf(k):
		return scheduler.Invalid("veth.peer", "%s names %s as its peer, not %s", peer, keyOf(back.GetPeer()), k)
	}
	return nil
}

// spec makes both ends. The far one gets its mark, state and master from its
// own key, which comes next; until then the ledger and the group tell whose it is.
func (veth) spec(w *wish, s *kernel.LinkSpec) error {
	p := w.peer
	s.Veth = &kernel.VethSpec{
		PeerNS:    p.place.NS,
		PeerName:  p.host,
		PeerMTU:   int(p.value.GetMtu()),
		PeerMAC:   p.value.GetMacAddress(),
		PeerGroup: s.Group,

		PeerAccepts: acceptsOf(p.value),
	}
	return nil
}

func (veth) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetVeth().GetPeer(), desired.GetVeth().GetPeer()
	d.Must(was != is, "veth.peer", was, is)
	return d
}

// readVeth names the other end. From a namespace that is not open nothing can
// be read; ends never change their partner, so the hint is believed then.
func (d *iface) readVeth(l kernel.Link, hint *models.Veth) *models.Veth {
	if l.ParentNS == 0 && hint != nil {
		return &models.Veth{Peer: hint.GetPeer()}
	}
	return &models.Veth{Peer: d.linkName(kernel.LinkRef{NS: l.ParentNS, Index: l.Parent}, hint.GetPeer())}
}

// peerWish is what the other end shall be. The scheduler passes an operation
// only its own value; but everything that the other end needs besides this one
// is in place as well, because the two go together.
func (d *iface) peerWish(ctx context.Context, peer scheduler.Key) (*wish, error) {
	v, ok := d.Interfaces.Wanted(peer)
	if !ok {
		return nil, fmt.Errorf("%s, the other end, is not wanted any more", peer)
	}
	place, err := d.Places.Resolve(ctx, v.GetNamespace())
	if err != nil {
		return nil, fmt.Errorf("%s, the other end: %w", peer, err)
	}
	return d.newWish(peer, v, place), nil
}

// findOtherEnds finds, of the ends of cables in a namespace, those that were made together with
// their peers: where those are in place and their other ends are where they should be. Of a new
// cable it is known; else the kernel is asked.
func (d *iface) findOtherEnds(ns kernel.NS, ws []*wish) {
	var second []*wish
	var peers []kernel.LinkRef
	var names []string
	for _, w := range ws {
		if w.peer == nil {
			continue
		}
		_, ref, ok := d.Interfaces.Get(w.peer.key)
		if !ok {
			continue
		}
		if far := d.takeFar(ref); far != nil && far.NS == ns && far.Name == w.host {
			w.link, w.unread = *far, true
		} else {
			second, peers, names = append(second, w), append(peers, ref), append(names, w.host)
		}
	}
	if len(second) == 0 {
		return
	}
	// Where they were born, under their names, mostly.
	links, errs := d.Kernel.LinksByName(ns, names)
	for i, w := range second {
		if l := links[i]; errs[i] == nil && l.Type == "veth" && peers[i] == (kernel.LinkRef{NS: l.ParentNS, Index: l.Parent}) {
			w.link = l
		} else {
			w.link = d.endOf(peers[i], ns)
		}
	}
}

// farEnd is the other end of a new cable, with what the kernel was told of it; nil if it is no
// cable.
func farEnd(s kernel.LinkSpec, l kernel.Link) *kernel.Link {
	if s.Veth == nil || l.Parent == 0 {
		return nil
	}
	return &kernel.Link{NS: s.Veth.PeerNS, Index: l.Parent, Name: s.Veth.PeerName, Type: "veth", ParentNS: l.NS, Parent: l.Index,
		MAC: s.Veth.PeerMAC, MTU: s.Veth.PeerMTU, Group: s.Veth.PeerGroup, Accepts: s.Veth.PeerAccepts.After(s.Veth.PeerAccepts)}
}

// keepFar keeps the other end of a new cable for its own key, which comes next. That end is
// then changed by its index without being read. What somebody else has done to it in between
// is seen all the same: if it is gone the kernel says so, see lost, and else it tells of the
// change how the link is.
func (d *iface) keepFar(w *wish) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.links[w.link.Ref()]; h != nil { // else its namespace has gone meanwhile
		h.far = w.far
	}
}

// takeFar returns what keepFar has kept, once.
func (d *iface) takeFar(near kernel.LinkRef) *kernel.Link {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.links[near]
	if h == nil {
		return nil
	}
	far := h.far
	h.far = nil
	return far
}

// lost are the ends that were not read, and turn out to be gone. They are to be made again as
// those of which nothing is known.
func (d *iface) lost(ws []*wish) (gone []*wish) {
	for _, w := range ws {
		if w.unread && kernel.IsGone(w.err) {
			d.release(w.link.Ref())
			w.link, w.err, w.unread = kernel.Link{}, nil, false
			gone = append(gone, w)
		}
	}
	return gone
}

// endOf is the other end of a cable, in a namespace; zero if it is not there.
func (d *iface) endOf(ref kernel.LinkRef, ns kernel.NS) kernel.Link {
	first, err := d.Kernel.LinkByIndex(ref.NS, ref.Index)
	if err != nil || first.Type != "veth" || first.ParentNS != ns {
		return kernel.Link{}
	}
	end, err := d.Kernel.LinkByIndex(first.ParentNS, first.Parent)
	if err != nil || end.Type != "veth" {
		return kernel.Link{}
	}
	return end
}
