package address

import (
	"cmp"
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

// network is the settings of an address for its network and the route to it.
type network struct {
	peer    netip.Addr
	metric  uint32
	noRoute bool
}

func networkOf(v *models.Address) network {
	peer, _ := netip.ParseAddr(v.GetPeer())
	return network{peer, v.GetMetric(), v.EffectivePrefixRoute() == noRoute}
}

func (n network) fit(a kernel.Address) bool {
	return n.peer == a.Peer && n.metric == a.Metric && n.noRoute == a.NoPrefixRoute
}

// broadcastOf is the broadcast address of an IPv4 address: the last one of its network. It is invalid
// for a network of two hosts (RFC 3021) and with a peer. It is only set at creation: the kernel
// cannot change it, so it is not compared.
func broadcastOf(p netip.Prefix, v *models.Address) (last netip.Addr) {
	if !p.Addr().Is4() || p.Bits() > 30 || p.Addr().IsLoopback() || v.GetPeer() != "" {
		return last
	}
	b := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])|^uint32(0)>>p.Bits())
	return netip.AddrFrom4(b)
}

// The values of prefix_route. missingRoute occurs in actual values only: the kernel created the route
// for the address, and it was removed.
const (
	kernelRoute  = "kernel"
	noRoute      = "none"
	missingRoute = "missing"
)

// compareNetworks compares the network settings. The metric changes in place. The route of an IPv6
// address is added and removed in place, the one of an IPv4 address can only be added again.
func compareNetworks(d *kind.Differences, from, to *models.Address) {
	d.Must(networkOf(from).peer != networkOf(to).peer, "peer", from.GetPeer(), to.GetPeer())
	d.May(from.GetMetric() != to.GetMetric(), "metric", from.GetMetric(), to.GetMetric())
	was, is := from.EffectivePrefixRoute(), to.EffectivePrefixRoute()
	route := d.Must
	if parse(to.GetAddress()).Addr().Is6() || was == missingRoute && is == kernelRoute {
		route = d.May
	}
	route(was != is, "prefix_route", was, is)
}

// lacksRoute reports whether the route to the network of an address was removed. An address of a link
// that no longer exists lacks none.
func (r *search) lacksRoute(l link, a kernel.Address) (bool, error) {
	if !l.up || !bringsRoute(l.host, a) {
		return false, nil
	}
	routes, err := r.routes(l.ref)
	if kernel.IsGone(err) {
		return false, nil
	}
	return err == nil && !routed(routes, a), err
}

// withDefaultsOf returns a value in which the network settings that it does not set are those of an
// address of others, which decide on them.
func withDefaultsOf(want *models.Address, is kernel.Address) *models.Address {
	w, others := want.Copy(), &models.Address{}
	kind.SetNetwork(others, is)
	w.Position = 0
	w.Peer, w.Metric, w.PrefixRoute = cmp.Or(w.Peer, others.Peer), cmp.Or(w.Metric, others.Metric), cmp.Or(w.PrefixRoute, others.PrefixRoute)
	return w
}

// bringsRoute reports whether the kernel creates a route to the network of an address while its link
// is up, see fib_add_ifaddr in net/ipv4/fib_frontend.c. The network of an IPv4 address of a loopback is
// local.
func bringsRoute(link string, a kernel.Address) bool {
	switch {
	case a.NoPrefixRoute || a.Scope == scopeNumber("host"):
		return false
	case a.Prefix.Addr().Is6():
		return true
	case link == "lo":
		return false
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

// lacksRoute reads the link of an address, and reports whether the route to the network of the
// address was removed.
func (d *address) lacksRoute(ns kernel.NS, a kernel.Address) (l kernel.Link, lacks bool, err error) {
	l, err = d.Kernel.LinkByIndex(ns, a.Index)
	if err != nil || !l.Up || !bringsRoute(l.Name, a) {
		return l, false, err
	}
	routes, err := d.Kernel.PrefixRoutes(ns, a.Index)
	return l, err == nil && !routed(routes, a), err
}

// addRoute adds the route to the network of an IPv4 address as the kernel does.
func (d *address) addRoute(l kernel.Link, a kernel.Address) error {
	r := kernel.Route{
		Dst: a.Network(), Metric: a.Metric, Protocol: kernel.ProtocolKernel, Type: "unicast", Scope: "link", Src: a.Prefix.Addr(), Index: a.Index,
	}
	if l.Master != 0 {
		if m, err := d.Kernel.LinkByIndex(l.NS, l.Master); err == nil && m.Vrf != nil {
			r.Table = m.Vrf.Table
		}
	}
	err := d.Kernel.AddPrefixRoute(l.NS, r)
	switch {
	case errors.Is(err, kernel.ErrExist): // it was added meanwhile
		return nil
	case err != nil:
		return fmt.Errorf("add the route to the network of %s: %w; is %s the broadcast address of another network of the namespace?", a.Prefix, err, r.Src)
	}
	return nil
}

// addMissingRoutes adds the routes to the networks of new IPv4 addresses that the kernel did not create,
// which it does not report. It creates none to the network of an address that is the broadcast
// address of another network in the namespace at that time.
func (d *address) addMissingRoutes(ns kernel.NS, jobs []*job) {
	fresh := slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return j.err != nil || !bringsRoute("", j.addr) || j.addr.Prefix.Addr().Is6() })
	if len(fresh) == 0 {
		return
	}
	index := fresh[0].addr.Index
	if slices.ContainsFunc(fresh, func(j *job) bool { return j.addr.Index != index }) {
		index = 0
	}
	routes, err := d.Kernel.PrefixRoutes(ns, index)
	if err != nil {
		return // the next reading of the addresses finds what is missing
	}
	for _, j := range fresh {
		// A secondary address uses the route of the primary one.
		if slices.ContainsFunc(routes, func(r kernel.Route) bool { return r.Index == j.addr.Index && r.Dst == j.addr.Network() }) {
			continue
		}
		l, lacks, err := d.lacksRoute(ns, j.addr)
		if err != nil || !lacks {
			continue
		}
		if err = d.addRoute(l, j.addr); err == nil {
			continue
		}
		// If others have removed the address meanwhile, the event of that leads to its repair.
		if stands, readErr := d.stands(l.Ref(), j.addr); stands || readErr != nil {
			j.unusable = err
		}
	}
}

// lostRoute returns the keys of the addresses that lack their route to a network after the kernel has
// reported its removal.
func (d *address) lostRoute(ns kernel.NS, r kernel.Route) (keys []scheduler.Key) {
	at := kernel.LinkRef{NS: ns, Index: r.Index}
	if len(d.have.Of(func(l kernel.LinkRef) bool { return l == at }, false)) == 0 {
		return nil
	}
	// The link may be down by now, or the address removed.
	there, _ := d.Kernel.Addresses(ns, r.Index)
	for _, a := range there {
		k, ours := d.keyAt(kernel.AddressRef{LinkRef: at, Prefix: a.Prefix})
		if !ours || routedNetwork(a) != r.Dst {
			continue
		}
		if _, lacks, err := d.lacksRoute(ns, a); err == nil && lacks {
			keys = append(keys, k)
		}
	}
	return keys
}

// routedNetwork is the destination of the route that the kernel creates for an address.
func routedNetwork(a kernel.Address) netip.Prefix {
	if a.Prefix.Addr().Is6() {
		return a.Prefix.Masked()
	}
	return a.Network()
}
