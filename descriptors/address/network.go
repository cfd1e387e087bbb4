package address

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// network is what an address says of the network that it is in, and of the route to it.
type network struct {
	peer   netip.Addr
	metric uint32
	none   bool // there is no route
}

func networkOf(v *models.Address) network {
	peer, _ := netip.ParseAddr(v.GetPeer())
	return network{peer, v.GetMetric(), v.EffectivePrefixRoute() == noRoute}
}

func (n network) fit(a kernel.Address) bool {
	return n.peer == a.Peer && n.metric == a.Metric && n.none == a.NoPrefixRoute
}

// broadcastOf is the last address of the network of an IPv4 address, to which programs send what all
// hosts of it are to get; invalid if there is none. It is not compared with what is found: the kernel
// cannot change it, and a network of two hosts, or of a peer, has none (RFC 3021).
func broadcastOf(p netip.Prefix, v *models.Address) (last netip.Addr) {
	if !p.Addr().Is4() || p.Bits() > 30 || p.Addr().IsLoopback() || v.GetPeer() != "" {
		return last
	}
	b := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])|^uint32(0)>>p.Bits())
	return netip.AddrFrom4(b)
}

// The words of prefix_route. Nobody can ask for a missing route; it is found, where the kernel made
// one for the address and somebody has removed it since.
const (
	kernelRoute  = "kernel"
	noRoute      = "none"
	missingRoute = "missing"
)

// compareNetworks: the kernel changes the metric in place. Of IPv6 it also makes and removes the
// route, of IPv4 only a missing one can be made again.
func compareNetworks(d *kind.Differences, from, to *models.Address) {
	d.Must(networkOf(from).peer != networkOf(to).peer, "peer", from.GetPeer(), to.GetPeer())
	d.May(from.GetMetric() != to.GetMetric(), "metric", from.GetMetric(), to.GetMetric())
	was, is := from.EffectivePrefixRoute(), to.EffectivePrefixRoute()
	inPlace := parse(to.GetAddress()).Addr().Is6() || was == missingRoute && is == kernelRoute
	d.May(was != is && inPlace, "prefix_route", was, is)
	d.Must(was != is && !inPlace, "prefix_route", was, is)
}

// describe has a value tell the network of an address that was found.
func (r *search) describe(v *models.Address, l link, a kernel.Address) error {
	if a.Peer.IsValid() {
		v.Peer = a.Peer.String()
	}
	v.Metric = a.Metric
	if a.NoPrefixRoute {
		v.PrefixRoute = noRoute
		return nil
	}
	if !l.up || !bringsRoute(a) {
		return nil
	}
	routes, err := r.routes(l.ref)
	if err == nil && !routed(routes, a) {
		v.PrefixRoute = missingRoute
	}
	return err
}

// bringsRoute reports whether the kernel makes a route to the network of an address while its link
// is up; see fib_add_ifaddr in net/ipv4/fib_frontend.c.
func bringsRoute(a kernel.Address) bool {
	switch {
	case a.NoPrefixRoute || a.Scope == scopeNumber("host"):
		return false
	case a.Prefix.Addr().Is6():
		return true
	}
	network := a.Network()
	return !a.Secondary && network.Addr().As4()[0] != 0 && (network.Bits() < 32 || network.Addr() != a.Prefix.Addr())
}

// routed reports whether the route to the network of an address is among those of its link.
func routed(routes []kernel.Route, a kernel.Address) bool {
	return slices.ContainsFunc(routes, func(r kernel.Route) bool {
		return r.Dst == routedNetwork(a) && (r.Dst.Addr().Is6() || r.Src == a.Prefix.Addr())
	})
}

// lacksRoute reports whether the route to the network of an address should be there, and is not.
func (d *address) lacksRoute(ns kernel.NS, a kernel.Address) (bool, error) {
	l, err := d.Kernel.LinkByIndex(ns, a.Index)
	if err != nil || !l.Up || !bringsRoute(a) {
		return false, err
	}
	routes, err := d.Kernel.PrefixRoutes(ns, a.Index)
	return err == nil && !routed(routes, a), err
}

// addRoute makes the route to the network of an IPv4 address as the kernel does.
func (d *address) addRoute(ns kernel.NS, a kernel.Address) error {
	r := kernel.Route{
		Dst: a.Network(), Metric: a.Metric, Protocol: kernel.ProtocolKernel, Type: "unicast", Scope: "link", Src: a.Prefix.Addr(), Index: a.Index,
	}
	l, err := d.Kernel.LinkByIndex(ns, a.Index)
	if err != nil {
		return err
	}
	if l.Master != 0 {
		if m, err := d.Kernel.LinkByIndex(ns, l.Master); err == nil && m.Vrf != nil {
			r.Table = m.Vrf.Table
		}
	}
	err = d.Kernel.AddRoute(ns, r)
	if errors.Is(err, kernel.ErrExist) {
		return scheduler.Conflict("somebody else", fmt.Errorf("another route to %s with this metric is in the place of that of the kernel", r.Dst))
	}
	return err
}

// lostRoute is the keys of addresses whose route to their network an event says that is removed.
func (d *address) lostRoute(ns kernel.NS, r kernel.Route) (keys []scheduler.Key) {
	at := kernel.LinkRef{NS: ns, Index: r.Index}
	if len(d.have.Of(func(l kernel.LinkRef) bool { return l == at }, false)) == 0 {
		return nil
	}
	// An event tells of the past: the link may be down since, or the address removed.
	there, _ := d.Kernel.Addresses(ns, r.Index)
	for _, a := range there {
		k, ours := d.keyAt(kernel.AddressRef{LinkRef: at, Prefix: a.Prefix})
		if !ours || routedNetwork(a) != r.Dst {
			continue
		}
		if missing, err := d.lacksRoute(ns, a); err == nil && missing {
			keys = append(keys, k)
		}
	}
	return keys
}

// routedNetwork is where the route leads that the kernel makes for an address.
func routedNetwork(a kernel.Address) netip.Prefix {
	if a.Prefix.Addr().Is6() {
		return a.Prefix.Masked()
	}
	return a.Network()
}

// leniently is what is wanted of an address of others, of which what the value does not say is left
// to them.
func leniently(want kernel.Address, is kernel.Address) kernel.Address {
	if !want.Peer.IsValid() {
		want.Peer = is.Peer
	}
	if want.Metric == 0 {
		want.Metric = is.Metric
	}
	want.NoPrefixRoute = want.NoPrefixRoute || is.NoPrefixRoute
	return want
}
