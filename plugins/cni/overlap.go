package cni

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// HostNetwork is a network that the host is in, or has a way to.
type HostNetwork struct {
	// Prefix is the destination of a route, or an address with its length.
	Prefix netip.Prefix
	// Route tells which of them it is.
	Route bool
	// Link is the name of the link; "" of a route without one, such as a blackhole.
	Link string
	// Key of the interface that the link is, "" if it is not ours.
	Key string
}

func (h HostNetwork) String() string {
	switch {
	case h.Route && h.Link == "":
		return fmt.Sprintf("the host has a route to %s", h.Prefix.Masked())
	case h.Route:
		return fmt.Sprintf("the host has a route to %s by %s", h.Prefix.Masked(), h.Link)
	}
	return fmt.Sprintf("%s of the host has the address %s", h.Link, h.Prefix)
}

// collides says why a network cannot have its addresses: another network, an ippool or
// the host has them. A network that has attachments was there first.
func (s *Service) collides(ctx context.Context, name string, n network.Network) *spec.Error {
	s.mu.Lock()
	wrong, first := s.heldByNetwork(name, n), s.nets[name] == nil
	s.mu.Unlock()
	if wrong == nil && first {
		wrong = s.heldByPool(ctx, n)
	}
	if wrong == nil && first {
		wrong = s.heldByHost(n)
	}
	return wrong
}

// heldByNetwork tells which network with attachments has the bridge or the addresses of
// another. The lock is held.
func (s *Service) heldByNetwork(name string, n network.Network) *spec.Error {
	for _, other := range slices.Sorted(maps.Keys(s.nets)) {
		o := s.nets[other]
		if other == name || len(o.users) == 0 {
			continue
		}
		if n.Bridge != "" && n.Mode == network.ModeBridge && o.Mode == network.ModeBridge && n.Bridge == o.Bridge {
			return spec.InUse("bridge: %s is the bridge of the network %s, which has %s; choose another name", n.Bridge, other, o.count())
		}
		if mine, theirs, both := n.Overlaps(o.Network); both {
			return spec.InUse("pool: %s overlaps %s of the network %s, which has %s", mine, theirs, other, o.count())
		}
	}
	return nil
}

// heldByPool tells which ippool gives the addresses that a network writes as its own.
func (s *Service) heldByPool(ctx context.Context, n network.Network) *spec.Error {
	all, err := s.engine.List(ctx, models.KindIPPool+"/")
	if err != nil {
		return gaveUp(err)
	}
	for _, st := range all {
		v, ok := st.Desired.(*models.IPPool)
		p, err := netip.ParsePrefix(v.GetNetwork())
		if !ok || err != nil || strings.HasPrefix(nameOf(st.Key), network.OwnPrefix) {
			continue
		}
		for _, sub := range n.Subnets {
			if strings.HasPrefix(sub.Pool, network.OwnPrefix) && network.Overlap(sub.Prefix, p) {
				return spec.InUse("pool: %s overlaps %s of %s; name that ippool instead, or choose other addresses", sub.Prefix, p, st.Key)
			}
		}
	}
	return nil
}

// heldByHost tells which network of the host a network overlaps. What is on the
// network's own links is its own.
func (s *Service) heldByHost(n network.Network) *spec.Error {
	for _, sub := range n.Subnets {
		if sub.Foreign || n.Mode == network.ModeRouted && !strings.HasPrefix(sub.Pool, network.OwnPrefix) {
			continue // each address stands alone, and whose they are somebody else has decided
		}
		held, err := s.host.Networks(sub.Prefix)
		if err != nil {
			return &spec.Error{Code: spec.TryLater, Msg: "the networks of the host cannot be read", Details: err.Error()}
		}
		for _, h := range held {
			if !owns(n, h) && h.hides(sub.Prefix) {
				return spec.InUse("pool: %s overlaps a network of the host: %s", sub.Prefix, h)
			}
		}
	}
	return nil
}

// owns reports whether a network of the host is that of this very network: its bridge or
// one of its cables, also one that is still being removed. Whether a link that is called
// like the bridge is ours, who makes it tells.
func owns(n network.Network, h HostNetwork) bool {
	return n.Mode == network.ModeBridge && h.Link == n.Bridge || h.Key == models.InterfaceKey(n.Name) || strings.HasPrefix(h.Key, models.InterfaceKey(n.Name)+":")
}

// hides reports whether packets of a network could be taken for those of the host's.
func (h HostNetwork) hides(p netip.Prefix) bool {
	switch {
	case !network.Overlap(h.Prefix, p), h.wayOut():
		return false
	case h.Route && h.Link == "": // what refuses a larger network lets a part of it be
		return h.Prefix.Bits() >= p.Bits()
	}
	return true
}

// wayOut reports whether a route leads to everywhere: the default route, or one of the
// halves (for IPv6 the eighth that is in use) by which VPNs replace it.
func (h HostNetwork) wayOut() bool {
	if h.Prefix.Addr().Is4() {
		return h.Route && h.Prefix.Bits() <= 1
	}
	return h.Route && h.Prefix.Bits() <= 3
}

// inOrder are attachments by when they came: who was first has what two want.
func inOrder(list []Attachment) []Attachment {
	slices.SortStableFunc(list, func(a, b Attachment) int { return cmp.Compare(a.Since, b.Since) })
	return list
}

// count says how many attachments a network has.
func (sh *shared) count() string {
	if len(sh.users) == 1 {
		return "1 attachment"
	}
	return fmt.Sprintf("%d attachments", len(sh.users))
}

// taken says whose ports clash with those of a call, "" if nobody's.
func taken(nets map[string]*shared, caller Key, ports []network.Port) string {
	for _, sh := range nets {
		for k, u := range sh.users {
			for _, theirs := range u.ports {
				for _, p := range ports {
					if k != caller && p.Clashes(theirs) {
						return fmt.Sprintf("%s leads to %s", theirs, k)
					}
				}
			}
		}
	}
	return ""
}
