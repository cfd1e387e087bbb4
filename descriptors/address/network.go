package address

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

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

// The values of prefix_route. The last two occur in actual values only: another process removed the route
// to the network, or the local route, by which the host receives packets to the address.
const (
	kernelRoute  = "kernel"
	noRoute      = "none"
	missingRoute = "missing"
	missingLocal = "local missing"
)

// compareNetworks compares the network settings. The metric changes in place. The route of an IPv6
// address is added and removed in place, the one of an IPv4 address can only be added again. The route
// of type local of an IPv6 address is added only with the address: the kernel does not remove a local route
// that it did not create.
func compareNetworks(d *kind.Differences, from, to *models.Address) {
	d.Must(networkOf(from).peer != networkOf(to).peer, "peer", from.GetPeer(), to.GetPeer())
	d.May(from.GetMetric() != to.GetMetric(), "metric", from.GetMetric(), to.GetMetric())
	was, is := from.EffectivePrefixRoute(), to.EffectivePrefixRoute()
	six := parse(to.GetAddress()).Addr().Is6()
	switch {
	case was == missingLocal && six:
		d.Must(true, "local_route", "missing", "kernel")
	case was == missingLocal:
		d.May(true, "local_route", "missing", "kernel")
	case six || was == missingRoute && is == kernelRoute:
		d.May(was != is, "prefix_route", was, is)
	default:
		d.Must(was != is, "prefix_route", was, is)
	}
}

// lacking returns which route of an address was removed, as a value of prefix_route, "" for none. An
// address of a link that no longer exists lacks none.
func (r *search) lacking(l link, a kernel.Address) (string, error) {
	if !l.up {
		return "", nil
	}
	routes, err := r.routes(l.ref)
	if err == nil && a.Prefix.Addr().Is6() && lacksLocal(routes, a) {
		routes, err = r.routesAgain(l.ref, a)
	}
	if kernel.IsGone(err) {
		return "", nil
	}
	return lacking(l.host, routes, a), err
}

// localTime limits how long a search waits for local routes. The kernel creates the local route of an
// IPv6 address shortly after the address, see addrconf_dad_work in net/ipv6/addrconf.c.
const localTime = 100 * time.Millisecond

// routesAgain reads the routes of a link until they contain the local route of an address, or until
// waitUntil.
func (r *search) routesAgain(ref kernel.LinkRef, a kernel.Address) ([]kernel.Route, error) {
	if r.waitUntil.IsZero() {
		r.waitUntil = time.Now().Add(localTime)
	}
	for {
		late := !time.Now().Before(r.waitUntil)
		routes, err := r.d.Kernel.AddressRoutes(ref.NS, ref.Index)
		if err != nil || late || !lacksLocal(routes, a) {
			return routes, err
		}
		time.Sleep(localTime / 10)
	}
}

// lacking returns which route of an address is not among those of its link, which is up.
func lacking(link string, routes []kernel.Route, a kernel.Address) string {
	switch {
	case lacksLocal(routes, a):
		return missingLocal
	case bringsRoute(link, a) && !routed(routes, a):
		return missingRoute
	}
	return ""
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

// lacksLocal reports whether routes, those of a link that is up, do not contain the local route of an
// address. A tentative address has none.
func lacksLocal(routes []kernel.Route, a kernel.Address) bool {
	return !a.Tentative && !slices.ContainsFunc(routes, func(r kernel.Route) bool {
		return r.OfAddress() && r.Dst.Addr() == a.Prefix.Addr()
	})
}

// lacking reads the link of an address, and returns which route of the address was removed.
func (d *address) lacking(ns kernel.NS, a kernel.Address) (l kernel.Link, what string, err error) {
	l, err = d.Kernel.LinkByIndex(ns, a.Index)
	if err != nil || !l.Up {
		return l, "", err
	}
	routes, err := d.Kernel.AddressRoutes(ns, a.Index)
	if err != nil {
		return l, "", err
	}
	return l, lacking(l.Name, routes, a), nil
}

// addRoutes adds the routes of an IPv4 address that are missing as the kernel does. The route to the
// network names the address as its source, so the host must receive packets to it.
func (d *address) addRoutes(l kernel.Link, a kernel.Address, what string) error {
	table := uint32(0)
	if l.Master != 0 {
		if m, err := d.Kernel.LinkByIndex(l.NS, l.Master); err == nil && m.Vrf != nil {
			table = m.Vrf.Table
		}
	}
	if what == missingLocal {
		src, err := d.primary(l.NS, a)
		if err != nil {
			return err
		}
		r := kernel.Route{
			Dst: netip.PrefixFrom(a.Prefix.Addr(), 32), Table: cmp.Or(table, kernel.TableLocal), Protocol: kernel.ProtocolKernel,
			Type: "local", Scope: "host", Src: src, Index: a.Index,
		}
		if err := d.Kernel.AddAddressRoute(l.NS, r); err != nil && !errors.Is(err, kernel.ErrExist) {
			return fmt.Errorf("add the route of type local of %s: %w", a.Prefix, err)
		}
	}
	if !bringsRoute(l.Name, a) {
		return nil
	}
	r := kernel.Route{
		Dst: a.Network(), Table: table, Metric: a.Metric, Protocol: kernel.ProtocolKernel, Type: "unicast", Scope: "link", Src: a.Prefix.Addr(), Index: a.Index,
	}
	err := d.Kernel.AddAddressRoute(l.NS, r)
	switch {
	case errors.Is(err, kernel.ErrExist): // it was added meanwhile, or was not missing
		return nil
	case err != nil:
		return fmt.Errorf("add the route to the network of %s: %w; is %s the broadcast address of another network of the namespace?", a.Prefix, err, r.Src)
	}
	return nil
}

// primary returns the primary IPv4 address of the network of an address. The local routes of all
// addresses of the network have it as their source; the kernel does not remove one with another source.
func (d *address) primary(ns kernel.NS, a kernel.Address) (netip.Addr, error) {
	if !a.Secondary {
		return a.Prefix.Addr(), nil
	}
	there, err := d.Kernel.Addresses(ns, a.Index)
	for _, b := range there {
		if !b.Secondary && b.Prefix.Masked() == a.Prefix.Masked() {
			return b.Prefix.Addr(), nil
		}
	}
	return a.Prefix.Addr(), err
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
	routes, err := d.Kernel.AddressRoutes(ns, index)
	if err != nil {
		return // the next reading of the addresses finds what is missing
	}
	for _, j := range fresh {
		// A secondary address uses the route of the primary one.
		if slices.ContainsFunc(routes, func(r kernel.Route) bool { return r.Index == j.addr.Index && r.Dst == j.addr.Network() }) {
			continue
		}
		l, what, err := d.lacking(ns, j.addr)
		if err != nil || what == "" {
			continue
		}
		if err = d.addRoutes(l, j.addr, what); err == nil {
			continue
		}
		// If others have removed the address meanwhile, the event of that leads to its repair.
		if stands, readErr := d.stands(l.Ref(), j.addr); stands || readErr != nil {
			j.unusable = err
		}
	}
}

// lostRoute returns the keys of the addresses that lack a route after the kernel has reported its
// removal.
func (d *address) lostRoute(ns kernel.NS, r kernel.Route) (keys []scheduler.Key) {
	at := kernel.LinkRef{NS: ns, Index: r.Index}
	if len(d.have.In(at)) == 0 || r.OfAddress() && !d.hasAddress(at, r.Dst.Addr()) {
		return nil // or it went with an address that we removed
	}
	// The link may be down by now, or the address removed.
	there, _ := d.Kernel.Addresses(ns, r.Index)
	for _, a := range there {
		k, ours := d.keyAt(kernel.AddressRef{LinkRef: at, Prefix: a.Prefix})
		if !ours || routedNetwork(a) != r.Dst && a.Prefix.Addr() != r.Dst.Addr() {
			continue
		}
		if _, what, err := d.lacking(ns, a); err == nil && what != "" {
			keys = append(keys, k)
		}
	}
	return keys
}

// hasAddress reports whether a link is believed to have an address, in whatever network.
func (d *address) hasAddress(at kernel.LinkRef, addr netip.Addr) bool {
	for bits := range addr.BitLen() + 1 {
		if _, there := d.have.Get(at, netip.PrefixFrom(addr, bits)); there {
			return true
		}
	}
	return false
}

// routedNetwork is the destination of the route that the kernel creates for an address.
func routedNetwork(a kernel.Address) netip.Prefix {
	if a.Prefix.Addr().Is6() {
		return a.Prefix.Masked()
	}
	return a.Network()
}
