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

// ownPrefix begins the names of all values of ours, and of no operator's.
const ownPrefix = "cni:"

// inUse refuses what others have. Who is there first has it.
func inUse(format string, args ...any) *spec.Error {
	return &spec.Error{Code: spec.TryLater, Msg: "it is in use", Details: fmt.Sprintf(format, args...)}
}

// collides says why a network cannot have its addresses: another network, an ippool or
// the host has them. A network that has attachments was there first.
func (s *Service) collides(ctx context.Context, name string, n network) *spec.Error {
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

// collidesNow is collides for a call, whose network may be of no use at all; then who
// joins it is told.
func (s *Service) collidesNow(ctx context.Context, c Call) *spec.Error {
	n, wrong := networkOf(c.Network, c.pools, c.IPAM)
	if wrong != nil {
		return nil
	}
	return s.collides(ctx, c.Network.Name, n)
}

// heldByNetwork tells which network with attachments has the bridge or the addresses of
// another. The lock is held.
func (s *Service) heldByNetwork(name string, n network) *spec.Error {
	for _, other := range slices.Sorted(maps.Keys(s.nets)) {
		o := s.nets[other]
		if other == name || len(o.users) == 0 {
			continue
		}
		if n.mode == modeBridge && o.mode == modeBridge && n.bridge == o.bridge {
			return inUse("bridge: %s is the bridge of the network %s, which has %s; choose another name", n.bridge, other, o.count())
		}
		if mine, theirs, both := n.overlaps(o.network); both {
			return inUse("pool: %s overlaps %s of the network %s, which has %s", mine, theirs, other, o.count())
		}
	}
	return nil
}

// overlaps reports whether two networks have addresses in common, of which the host
// could reach but one. An ippool may be shared where the host itself has no address of it,
// and by networks on which each address stands alone: it gives none twice.
func (n network) overlaps(o network) (mine, theirs netip.Prefix, both bool) {
	for _, a := range n.subnets {
		for _, b := range o.subnets {
			shared := a.pool == b.pool && a.pool != "" && a.router == "" && b.router == ""
			apart := n.given != nil && o.given != nil && n.mode == modeRouted && o.mode == modeRouted
			if overlap(a.network, b.network) && !shared && !apart && !a.foreign && !b.foreign {
				return a.network, b.network, true
			}
		}
	}
	return mine, theirs, false
}

// heldByPool tells which ippool gives the addresses that a network writes as its own.
func (s *Service) heldByPool(ctx context.Context, n network) *spec.Error {
	all, err := s.engine.List(ctx, models.KindIPPool+"/")
	if err != nil {
		return gaveUp(err)
	}
	for _, st := range all {
		v, ok := st.Desired.(*models.IPPool)
		p, err := netip.ParsePrefix(v.GetNetwork())
		if !ok || err != nil || strings.HasPrefix(nameOf(st.Key), ownPrefix) {
			continue
		}
		for _, sub := range n.subnets {
			if strings.HasPrefix(sub.pool, ownPrefix) && overlap(sub.network, p) {
				return inUse("pool: %s overlaps %s of %s; name that ippool instead, or choose other addresses", sub.network, p, st.Key)
			}
		}
	}
	return nil
}

// heldByHost tells which network of the host a network overlaps. What is on the
// network's own links is its own.
func (s *Service) heldByHost(n network) *spec.Error {
	for _, sub := range n.subnets {
		if sub.foreign || n.mode == modeRouted && !strings.HasPrefix(sub.pool, ownPrefix) {
			continue // each address stands alone, and whose they are somebody else has decided
		}
		held, err := s.host.Networks(sub.network)
		if err != nil {
			return &spec.Error{Code: spec.TryLater, Msg: "the networks of the host cannot be read", Details: err.Error()}
		}
		for _, h := range held {
			if !n.owns(h) && h.hides(sub.network) {
				return inUse("pool: %s overlaps a network of the host: %s", sub.network, h)
			}
		}
	}
	return nil
}

// owns reports whether a network of the host is that of this very network: its bridge or
// one of its cables, also one that is still being removed. Whether a link that is called
// like the bridge is ours, who makes it tells.
func (n network) owns(h HostNetwork) bool {
	return n.mode == modeBridge && h.Link == n.bridge || h.Key == models.InterfaceKey(n.name) || strings.HasPrefix(h.Key, models.InterfaceKey(n.name)+":")
}

// hides reports whether packets of a network could be taken for those of the host's.
func (h HostNetwork) hides(p netip.Prefix) bool {
	switch {
	case !overlap(h.Prefix, p), h.wayOut():
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
