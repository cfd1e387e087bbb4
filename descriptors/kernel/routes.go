package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// Routes are those of all tables.
type Routes interface {
	// Routes of all tables but the kernel's own entries in table local.
	Routes(ns NS) ([]Route, error)
	// AddressRoutes returns the routes that the kernel created for the addresses of a link, or of
	// all links if index is 0: the routes to their networks and their local routes.
	AddressRoutes(ns NS, index int) ([]Route, error)
	// AddAddressRoute adds such a route after the routes of other links to the same destination, as
	// the kernel does.
	AddAddressRoute(ns NS, r Route) error
	// AddRoute never replaces or appends: an equal identity is ErrExist.
	AddRoute(ns NS, r Route) error
	// AddRoutes adds many, in order, with fewer calls of the kernel, and returns the error
	// of each.
	AddRoutes(ns NS, rs []*Route) []error
	ReplaceRoute(ns NS, r Route) error
	DeleteRoute(ns NS, r Route) error
}

// TableLocal is the routing table of the addresses of the host, RT_TABLE_LOCAL of
// linux/rtnetlink.h. The addresses of the ports of a VRF are in its table.
const TableLocal = 255

// OfAddress reports whether this is the local route that the kernel created for an address of the host.
func (r Route) OfAddress() bool { return r.Type == "local" && r.Protocol == ProtocolKernel }

// ProtocolKernel is the protocol of the routes that the kernel makes, RTPROT_KERNEL of
// linux/rtnetlink.h.
const ProtocolKernel = 2

// Route is an entry of a routing table.
type Route struct {
	Dst    netip.Prefix // 0.0.0.0/0 and ::/0 for the defaults
	Table  uint32
	Metric uint32
	// TOS of the packets that the route is for, 0 all. Ignored by writes, which make none with it.
	TOS      uint8
	Protocol uint8
	Type     string // "unicast", "blackhole", …
	Scope    string // "global", "link", …
	Src      netip.Addr
	MTU      int
	Index    int // 0 with NextHops or without a device
	Gateway  netip.Addr
	Onlink   bool
	Encap    Encap // none with NextHops
	NextHops []NextHop
	// Nexthop is the number of a nexthop that says where packets leave. Index, Gateway, Encap and
	// NextHops then only tell what the kernel has there.
	Nexthop uint32
	// More: it has settings that this type does not name, such as a preference, a realm, a lock of
	// its MTU, or an end. Ignored by writes.
	More bool
}

// Equal reports whether two routes are the same to the letter.
func (r Route) Equal(o Route) bool {
	return r.Dst == o.Dst && r.Table == o.Table && r.Metric == o.Metric && r.TOS == o.TOS && r.Protocol == o.Protocol &&
		r.Type == o.Type && r.Scope == o.Scope && r.Src == o.Src && r.MTU == o.MTU && r.Index == o.Index &&
		r.Gateway == o.Gateway && r.Onlink == o.Onlink && r.Encap == o.Encap && r.Nexthop == o.Nexthop && r.More == o.More &&
		slices.Equal(r.NextHops, o.NextHops)
}

// RouteMark returns the identity of a route in the ledger, which is its identity in the kernel within a
// namespace. It is called several times for each route, so it does without fmt.
func RouteMark(dst string, table, metric uint32) string {
	text := make([]byte, 0, 64)
	text = append(append(text, dst...), " table "...)
	text = append(strconv.AppendUint(text, uint64(table), 10), " metric "...)
	return string(strconv.AppendUint(text, uint64(metric), 10))
}

// NoWay explains an error of the kernel that a gateway of the route is unreachable. The kernel does not
// report which one of several gateways it is.
func (r Route) NoWay(err error) error {
	gateway := "one of its gateways"
	if r.Gateway.IsValid() {
		gateway = "gateway " + r.Gateway.String()
	}
	return fmt.Errorf("no way to %s on its link; is there an address of its subnet, or is the route onlink? %w", gateway, err)
}

// NextHop is one of several ways of a route.
type NextHop struct {
	Index   int
	Gateway netip.Addr
	Weight  int
	Encap   Encap
}

// ProtocolName says who made a route, as far as its number tells.
func ProtocolName(n uint8) string {
	name, known := map[uint8]string{
		1: "redirect", 2: "kernel", 3: "boot (ip route)", 4: "static", 8: "gated", 9: "router advertisement",
		11: "zebra", 12: "bird", 16: "dhcp", 18: "keepalived", 42: "babel",
		186: "bgp", 187: "isis", 188: "ospf", 189: "rip", 192: "eigrp",
	}[n]
	if !known {
		return fmt.Sprintf("protocol %d", n)
	}
	return name
}
