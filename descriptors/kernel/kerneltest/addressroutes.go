package kerneltest

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// AddressRoutes are the routes of the addresses of a link, or of all with index 0.
func (k *Kernel) AddressRoutes(ns kernel.NS, index int) (list []kernel.Route, err error) {
	err = k.in(ns, "AddressRoutes", "list the routes of addresses", func(n *namespace) error {
		for _, r := range n.routes.all() {
			if r.Protocol == protoKernel && (r.Type == "unicast" || r.OfAddress()) && (index == 0 || r.Index == index) {
				list = append(list, r)
			}
		}
		for _, i := range slices.Sorted(maps.Keys(n.links)) {
			if index == 0 || i == index {
				list = append(list, n.links[i].locals()...)
			}
		}
		return nil
	})
	return list, err
}

// locals returns the routes in table local of the addresses of a link. The namespace does not store them:
// a link records only the removed ones. The local routes of the ports of a VRF are stored.
func (l *link) locals() (list []kernel.Route) {
	for _, a := range l.addresses {
		if r := l.localOf(a); l.Up && l.table() == tableMain && !a.Tentative && !l.lostLocals[a.Prefix.Addr()] {
			list = append(list, r)
		}
	}
	return list
}

// localOf returns the local route of an address.
func (l *link) localOf(a kernel.Address) kernel.Route {
	r := kernel.Route{
		Dst: hostPrefix(a.Prefix.Addr()), Table: l.table(), Protocol: protoKernel, Type: "local", Scope: "global", Index: l.Index,
	}
	if r.Table == tableMain {
		r.Table = tableLocal
	}
	if r.Dst.Addr().Is4() {
		r.Scope, r.Src = "host", l.primary(a)
	}
	return r
}

// loseLocal removes the route in table local of an address, and reports whether there was one.
func (k *Kernel) loseLocal(n *namespace, asked kernel.Route) bool {
	for _, l := range n.links {
		for _, r := range l.locals() {
			if r.Dst == asked.Dst && (asked.Index == 0 || asked.Index == r.Index) {
				if l.lostLocals == nil {
					l.lostLocals = map[netip.Addr]bool{}
				}
				l.lostLocals[r.Dst.Addr()] = true
				k.tellRoute(n, r, true)
				return true
			}
		}
	}
	return false
}

// AddAddressRoute adds a route after those with its identity.
func (k *Kernel) AddAddressRoute(ns kernel.NS, r kernel.Route) error {
	return k.write(ns, "AddAddressRoute", fmt.Sprintf("add route %s", r.Dst), func(n *namespace) error {
		r.Table, r.Type = cmp.Or(r.Table, tableMain), cmp.Or(r.Type, "unicast")
		l, err := n.link(r.Index)
		if err == nil && r.OfAddress() && r.Table == tableLocal {
			if !l.lostLocals[r.Dst.Addr()] {
				return refused(syscall.EEXIST)
			}
			delete(l.lostLocals, r.Dst.Addr())
			return nil
		}
		switch {
		case err != nil:
			return err
		case !l.Up:
			return refused(syscall.ENETDOWN)
		case slices.ContainsFunc(n.routes.to(r.Dst), func(is kernel.Route) bool { return same(is, r) }):
			return refused(syscall.EEXIST)
		}
		k.insertRoute(n, r)
		return nil
	})
}

// connect4 adds the route to the subnet of an address, if its link is up. In the table of a VRF there
// are also those that are in table local otherwise.
func (k *Kernel) connect4(l *link, a kernel.Address) {
	subnet, table := a.Network(), l.table()
	r := kernel.Route{
		Dst: subnet, Table: table, Metric: a.Metric, Protocol: protoKernel, Type: "unicast", Scope: "link", Src: a.Prefix.Addr(), Index: l.Index,
	}
	if table != tableMain {
		k.insertRoute(l.ns, l.localOf(a))
	}
	if !l.Up || a.Secondary || subnet == hostPrefix(a.Prefix.Addr()) || subnet.Addr().IsUnspecified() || l.Name == loopback ||
		a.Scope == scopeHost { // that is in table local
		return
	}
	if !a.NoPrefixRoute {
		k.insertRoute(l.ns, r)
	}
	if table != tableMain && subnet.Bits() < 31 {
		r.Metric = 0
		r.Dst, r.Type = hostPrefix(broadcast(subnet)), "broadcast"
		k.insertRoute(l.ns, r)
	}
}

// connect6 adds the route to the subnet of an address, and that to its peer. In the table of a
// VRF there is also the one that is in table local otherwise.
func (k *Kernel) connect6(l *link, a kernel.Address) {
	if !l.Up || l.Name == loopback {
		return
	}
	for _, dst := range networks6(a) {
		r := l.connected6(dst)
		if r.Metric = cmp.Or(a.Metric, metricConnected6); !slices.ContainsFunc(l.ns.routes.to(dst), func(is kernel.Route) bool { return same(is, r) }) {
			k.insertRoute(l.ns, r)
		}
	}
	if l.table() != tableMain {
		k.insertRoute(l.ns, l.localOf(a))
	}
}

// connectMulticast adds the route to all who listen on the port of a VRF.
func (k *Kernel) connectMulticast(l *link) {
	if l.Up && l.Vrf == nil && l.table() != tableMain {
		r := l.connected6(netip.MustParsePrefix("ff00::/8"))
		r.Type = "multicast"
		k.insertRoute(l.ns, r)
	}
}

func (l *link) connected6(dst netip.Prefix) kernel.Route {
	return kernel.Route{
		Dst: dst, Table: l.table(), Metric: metricConnected6, Protocol: protoKernel, Type: "unicast", Scope: "global", Index: l.Index,
	}
}

// networks6 are those to which an address brings routes.
func networks6(a kernel.Address) []netip.Prefix {
	if a.NoPrefixRoute {
		return nil
	}
	if a.Peer.IsValid() {
		return []netip.Prefix{a.Prefix.Masked(), hostPrefix(a.Peer)}
	}
	return []netip.Prefix{a.Prefix.Masked()}
}

// disconnect6 removes the routes that an address brought, unless another one of the link needs
// them.
func (k *Kernel) disconnect6(l *link, a kernel.Address) {
	for _, dst := range append(networks6(a), hostPrefix(a.Prefix.Addr())) {
		needed := slices.ContainsFunc(l.addresses, func(other kernel.Address) bool {
			return other.Metric == a.Metric && slices.Contains(networks6(other), dst)
		})
		for _, r := range l.ns.routes.to(dst) {
			if !needed && r.Protocol == protoKernel && r.Index == l.Index && (r.Metric == cmp.Or(a.Metric, metricConnected6) || r.Type == "local") {
				k.removeRoute(l.ns, r, true)
			}
		}
	}
}

// changeRoute gives an address the route to its network that is asked for. Of IPv4 only the metric
// can be changed.
func (k *Kernel) changeRoute(l *link, is *kernel.Address, asked kernel.Address) {
	was := *is
	if is.Prefix.Addr().Is6() {
		is.Metric, is.NoPrefixRoute = metricOf6(asked), asked.NoPrefixRoute
		if is.Metric != was.Metric || is.NoPrefixRoute != was.NoPrefixRoute {
			k.disconnect6(l, was)
		}
		k.connect6(l, *is)
		return
	}
	if asked.Metric == is.Metric {
		return
	}
	is.Metric = asked.Metric
	for _, r := range l.ns.routes.to(is.Network()) {
		if r.Protocol == protoKernel && r.Type == "unicast" && r.Index == l.Index && r.Src == is.Prefix.Addr() && r.Metric == was.Metric {
			k.removeRoute(l.ns, r, true)
		}
	}
	k.connect4(l, *is)
}

// metricOf6 is 0 for the metric that routes to networks have anyway.
func metricOf6(a kernel.Address) uint32 {
	if a.Metric == metricConnected6 {
		return 0
	}
	return a.Metric
}
