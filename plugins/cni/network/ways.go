package network

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Whether a container has a default route by a network.
const (
	defaultYes  = "yes"
	defaultNo   = "no"
	defaultAuto = "auto"
)

// ways is what a network says of the routes of its containers.
type ways struct {
	byDefault     string // yes, no, auto
	routes        []spec.Way
	metric, table uint32
	// without are the families in which the container has a default route already.
	without []string
}

func waysOf(conf spec.Config) ways {
	return ways{byDefault: cmp.Or(conf.DefaultRoute, defaultAuto), routes: conf.Routes, metric: conf.Metric, table: conf.Table}
}

// way is one route of a container.
type way struct {
	written            int // its place among the routes of the configuration, from 1
	dst                netip.Prefix
	gateway            string // "": that of the network, if it has one
	mtu, metric, table uint32
}

func (w way) everywhere() bool { return w.dst.Bits() == 0 }

// waysOut are the routes of a container: those of the configuration, those that another
// plugin has given with the addresses, and a default route of each family.
func (n Network) waysOut(inside string, list []address, change func(address, *models.Route)) (wants []Want, _ *spec.Error) {
	all := append(n.configured(), n.givenWays()...)
	for _, a := range list {
		all = n.withDefault(all, a)
	}
	all = slices.DeleteFunc(all, n.leavesOut)
	for _, a := range list {
		if n.Mode == ModeRouted && !leads(all, a.Prefix) { // nothing is on the link but the host
			all = append(all, way{dst: a.Prefix, metric: n.ways.metric, table: n.ways.table})
		}
	}
	for _, w := range all {
		at := slices.IndexFunc(list, func(a address) bool { return SameFamily(a.Prefix.Addr(), w.dst.Addr()) })
		if at < 0 && w.written > 0 {
			return nil, spec.Invalid("routes[%d].dst: the network has no address of the family of %s", w.written-1, w.dst)
		}
		r := &models.Route{Interface: inside, Destination: w.dst.String(), Gateway: w.gateway, Mtu: w.mtu, Metric: w.metric, Table: w.table}
		if at >= 0 {
			if a := list[at]; r.Gateway == "" && a.gateway.IsValid() {
				r.Gateway = a.gateway.String()
			}
			if wrong := w.reached(list); wrong != nil {
				return nil, wrong
			}
			change(list[at], r)
		}
		wants = append(wants, Want{models.RouteKey(Numbered(inside, len(wants))), r})
	}
	return wants, nil
}

// configured are the routes of the configuration; spec has checked them.
func (n Network) configured() (all []way) {
	for i, r := range n.ways.routes {
		w := way{written: i + 1, gateway: r.GW, metric: n.ways.metric, table: n.ways.table}
		if dst, err := netip.ParsePrefix(r.Dst); err == nil {
			w.dst = dst.Masked()
		}
		if r.Metric != nil {
			w.metric = *r.Metric
		}
		if r.Table != nil {
			w.table = *r.Table
		}
		all = append(all, w)
	}
	return all
}

// givenWays are the routes that another plugin has given.
func (n Network) givenWays() (all []way) {
	for _, r := range n.routes {
		dst, err := netip.ParsePrefix(r.Dst)
		if err != nil {
			continue
		}
		w := way{dst: dst.Masked(), gateway: r.GW, mtu: uint32(r.MTU), metric: cmp.Or(uint32(r.Priority), n.ways.metric), table: n.ways.table}
		if r.Table != nil {
			w.table = uint32(*r.Table)
		}
		all = append(all, w)
	}
	return all
}

// withDefault adds the default route of the family of an address, unless there is one
// among the others. Where another plugin gives the addresses it says whether there is one.
func (n Network) withDefault(all []way, a address) []way {
	has := slices.ContainsFunc(all, func(w way) bool { return w.everywhere() && SameFamily(w.dst.Addr(), a.Prefix.Addr()) })
	if has || !a.gateway.IsValid() || n.given != nil && n.ways.byDefault != defaultYes {
		return all
	}
	return append(all, way{dst: everywhere(a.gateway), metric: n.ways.metric, table: n.ways.table})
}

// leavesOut reports whether a default route is not to be.
func (n Network) leavesOut(w way) bool {
	if !w.everywhere() {
		return false
	}
	return n.ways.byDefault == defaultNo || slices.Contains(n.ways.without, FamilyOf(w.dst.Addr()))
}

// leads reports whether one of the routes leads to a network.
func leads(all []way, p netip.Prefix) bool {
	return slices.ContainsFunc(all, func(w way) bool {
		return cmp.Or(w.table, models.MainTable) == models.MainTable && w.dst.Bits() <= p.Bits() && Overlap(w.dst, p)
	})
}

// reached refuses a gateway of the configuration that is not in the network.
func (w way) reached(list []address) *spec.Error {
	gw, err := netip.ParseAddr(w.gateway)
	if err != nil || w.written == 0 || slices.ContainsFunc(list, func(a address) bool { return a.Prefix.Contains(gw) }) {
		return nil
	}
	return spec.Invalid("routes[%d].gw: %s is not in the network; leave it out for the network's own gateway", w.written-1, gw)
}

// SameFamily reports whether both are of IPv4, or both of IPv6.
func SameFamily(a, b netip.Addr) bool { return a.BitLen() == b.BitLen() }

// everywhere is all addresses of the family of one.
func everywhere(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}
