package route

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
)

// identity is what the kernel knows a route by within a namespace.
type identity struct {
	dst    netip.Prefix
	table  uint32
	metric uint32
}

// String is the mark of a route in the ledger.
func (i identity) String() string { return kernel.RouteMark(i.dst.String(), i.table, i.metric) }

// parseIdentity reads such a mark; what is none is the identity of no route.
func parseIdentity(mark string) identity {
	dst, rest, _ := strings.Cut(mark, " table ")
	table, metric, _ := strings.Cut(rest, " metric ")
	p, err := netip.ParsePrefix(dst)
	t, terr := strconv.ParseUint(table, 10, 32)
	m, merr := strconv.ParseUint(metric, 10, 32)
	if err != nil || terr != nil || merr != nil {
		return identity{}
	}
	return identity{dst: p, table: uint32(t), metric: uint32(m)}
}

func identityOf(r kernel.Route) identity {
	return identity{dst: r.Dst.Masked(), table: r.Table, metric: r.Metric}
}

// hop is one way of a route by logical name.
type hop struct {
	iface   string
	gateway netip.Addr
	weight  uint32
	encap   *models.Encap
}

func (h hop) String() string {
	s := h.iface
	if h.gateway.IsValid() {
		s = h.gateway.String() + " on " + s
	}
	if h.encap != nil {
		s += " in " + h.encap.Text()
	}
	if h.weight > 1 {
		s += " weight " + strconv.FormatUint(uint64(h.weight), 10)
	}
	return s
}

// hops are the ways of a value. The weight of a single one means nothing.
func hops(v *models.Route) []hop {
	if v.GetInterface() != "" {
		return []hop{{iface: v.GetInterface(), gateway: addr(v.GetGateway()), weight: 1, encap: v.GetEncap()}}
	}
	var list []hop
	for _, h := range v.GetNexthops() {
		list = append(list, hop{iface: h.GetInterface(), gateway: addr(h.GetGateway()), weight: h.EffectiveWeight(), encap: h.GetEncap()})
	}
	if len(list) == 1 {
		list[0].weight = 1
	}
	return list
}

// ways says the nexthop or the hops, in an order of their own: the kernel's is its own affair.
func ways(v *models.Route) string {
	if v.GetNexthop() != "" {
		return "nexthop " + v.GetNexthop()
	}
	var list []string
	for _, h := range hops(v) {
		list = append(list, h.String())
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// addr reads an address that validation has seen; "" is the zero Addr.
func addr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
