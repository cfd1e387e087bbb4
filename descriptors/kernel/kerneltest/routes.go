package kerneltest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Numbers of linux/rtnetlink.h.
const (
	tableDefault = 253
	tableMain    = 254
	tableLocal   = 255

	protoKernel = 2
	protoBoot   = 3

	metricConnected6 = 256
	metric6          = 1024
)

// routeID is what there can be only one of.
type routeID struct {
	table  uint32
	dst    netip.Prefix
	metric uint32
}

func idOf(r kernel.Route) routeID { return routeID{r.Table, r.Dst, r.Metric} }

// table is the routes of a namespace, of all tables. The zero value is empty.
type table struct {
	byID   map[routeID][]kernel.Route
	byDst  map[netip.Prefix]map[routeID]bool
	byLink map[int]map[routeID]bool
}

func (t *table) add(r kernel.Route, first bool) {
	if t.byID == nil {
		t.byID = map[routeID][]kernel.Route{}
		t.byDst, t.byLink = map[netip.Prefix]map[routeID]bool{}, map[int]map[routeID]bool{}
	}
	id := idOf(r)
	if first {
		t.byID[id] = slices.Insert(t.byID[id], 0, r)
	} else {
		t.byID[id] = append(t.byID[id], r)
	}
	note(t.byDst, r.Dst, id)
	for _, index := range linksOf(r) {
		note(t.byLink, index, id)
	}
}

func note[K comparable](all map[K]map[routeID]bool, k K, id routeID) {
	if all[k] == nil {
		all[k] = map[routeID]bool{}
	}
	all[k][id] = true
}

func (t *table) remove(r kernel.Route) {
	id := idOf(r)
	left := slices.DeleteFunc(t.byID[id], func(other kernel.Route) bool { return same(r, other) })
	if len(left) > 0 {
		t.byID[id] = left // what is not there any more is passed over when it is looked for
		return
	}
	delete(t.byID, id)
	if delete(t.byDst[r.Dst], id); len(t.byDst[r.Dst]) == 0 {
		delete(t.byDst, r.Dst)
	}
	for _, index := range linksOf(r) {
		if delete(t.byLink[index], id); len(t.byLink[index]) == 0 {
			delete(t.byLink, index)
		}
	}
}

// linksOf are the links that a route uses.
func linksOf(r kernel.Route) (list []int) {
	if r.Index != 0 {
		list = append(list, r.Index)
	}
	for _, h := range r.NextHops {
		list = append(list, h.Index)
	}
	return list
}

// same reports whether two routes are one.
func same(a, b kernel.Route) bool {
	ways := slices.Equal(a.NextHops, b.NextHops)
	a.NextHops, b.NextHops = nil, nil
	return ways && a.Dst == b.Dst && a.Table == b.Table && a.Metric == b.Metric && a.Protocol == b.Protocol && a.Type == b.Type &&
		a.Scope == b.Scope && a.Src == b.Src && a.MTU == b.MTU && a.Index == b.Index && a.Gateway == b.Gateway && a.Onlink == b.Onlink && a.Encap == b.Encap && a.Nexthop == b.Nexthop
}

// all are the routes in the order of the port.
func (t *table) all() (list []kernel.Route) {
	for _, routes := range t.byID {
		list = append(list, routes...)
	}
	slices.SortStableFunc(list, compareRoutes)
	return list
}

func compareRoutes(a, b kernel.Route) int {
	return cmp.Or(
		cmp.Compare(a.Table, b.Table),
		cmp.Compare(a.Dst.Addr().BitLen(), b.Dst.Addr().BitLen()),
		a.Dst.Addr().Compare(b.Dst.Addr()),
		cmp.Compare(a.Dst.Bits(), b.Dst.Bits()),
		cmp.Compare(a.Metric, b.Metric),
	)
}

// of are the routes that use a link, to those to a destination.
func (t *table) of(index int) (list []kernel.Route) {
	for id := range t.byLink[index] {
		for _, r := range t.byID[id] {
			if slices.Contains(linksOf(r), index) {
				list = append(list, r)
			}
		}
	}
	slices.SortStableFunc(list, compareRoutes)
	return list
}

func (t *table) to(dst netip.Prefix) (list []kernel.Route) {
	for id := range t.byDst[dst] {
		list = append(list, t.byID[id]...)
	}
	slices.SortStableFunc(list, compareRoutes)
	return list
}

// Routes of all tables but the kernel's own in table local.
func (k *Kernel) Routes(ns kernel.NS) (list []kernel.Route, err error) {
	err = k.in(ns, "Routes", "list routes", func(n *namespace) error {
		list = n.routes.all()
		for i := range list {
			list[i].NextHops = slices.Clone(list[i].NextHops)
		}
		return nil
	})
	return list, err
}

// AddRoute adds a route whose identity is not taken.
func (k *Kernel) AddRoute(ns kernel.NS, r kernel.Route) error {
	return k.putRoute(ns, "AddRoute", "add", r, func(there []kernel.Route) error {
		if len(there) > 0 {
			return refused(syscall.EEXIST)
		}
		return nil
	})
}

// AddRoutes adds many, one after the other.
func (k *Kernel) AddRoutes(ns kernel.NS, rs []*kernel.Route) []error {
	errs := make([]error, len(rs))
	for i, r := range rs {
		errs[i] = k.AddRoute(ns, *r)
	}
	return errs
}

// ReplaceRoute adds a route, or puts it in the place of the one with its identity.
func (k *Kernel) ReplaceRoute(ns kernel.NS, r kernel.Route) error {
	return k.putRoute(ns, "ReplaceRoute", "replace", r, func([]kernel.Route) error { return nil })
}

func (k *Kernel) putRoute(ns kernel.NS, method, act string, r kernel.Route, may func(there []kernel.Route) error) error {
	return k.write(ns, method, act+" "+routeName(r), func(n *namespace) error {
		r, err := n.checked(r)
		if err != nil {
			return err
		}
		there := n.routes.byID[idOf(r)]
		if err := may(there); err != nil {
			return err
		}
		if len(there) > 0 {
			n.routes.remove(there[0])
		}
		n.routes.add(r, true)
		k.tellRoute(n, r, false)
		return nil
	})
}

func routeName(r kernel.Route) string {
	s := fmt.Sprintf("route %s", r.Dst)
	if r.Table != 0 && r.Table != tableMain {
		s += fmt.Sprintf(" table %d", r.Table)
	}
	return s
}

// insertRoute adds a route of the kernel itself, unless it is there.
func (k *Kernel) insertRoute(n *namespace, r kernel.Route) {
	if slices.ContainsFunc(n.routes.byID[idOf(r)], func(other kernel.Route) bool { return same(r, other) }) {
		return
	}
	n.routes.add(r, false)
	k.tellRoute(n, r, false)
}

func (k *Kernel) removeRoute(n *namespace, r kernel.Route, told bool) {
	n.routes.remove(r)
	if told {
		k.tellRoute(n, r, true)
	}
}

// dropRoutes removes the routes of a family that a link takes with it. Those of several ways
// stay as long as another of the links is up, but not when one goes for good. Of IPv4 nothing
// is told.
func (k *Kernel) dropRoutes(l *link, forGood bool, family func(netip.Addr) bool) {
	n := l.ns
	for _, r := range n.routes.of(l.Index) {
		alive := func(h kernel.NextHop) bool {
			other := n.links[h.Index]
			return other != nil && other != l && other.Up
		}
		if !forGood && r.Type == "local" && r.Protocol == protoKernel && r.Dst.Addr().Is4() {
			continue // that goes with its address
		}
		if !family(r.Dst.Addr()) || r.Nexthop != 0 || !forGood && slices.ContainsFunc(r.NextHops, alive) {
			continue
		}
		k.removeRoute(n, r, r.Dst.Addr().Is6())
	}
}

// checked is a route as the kernel takes it, or why it does not.
func (n *namespace) checked(r kernel.Route) (kernel.Route, error) {
	if !r.Dst.IsValid() || r.Dst.Addr().Is4In6() {
		return r, fmt.Errorf("not a destination: %w", syscall.EINVAL)
	}
	r.Dst, r.Table, r.Type = r.Dst.Masked(), cmp.Or(r.Table, tableMain), cmp.Or(r.Type, "unicast")
	if !slices.Contains(routeTypes, r.Type) {
		return r, fmt.Errorf("no route type %q: %w", r.Type, syscall.EINVAL)
	}
	r.NextHops = slices.Clone(r.NextHops)
	if len(r.NextHops) > 0 {
		r.Encap = kernel.Encap{}
	}
	if err := checkEncap(r.Encap); err != nil {
		return r, err
	}
	for i := range r.NextHops {
		if err := checkEncap(r.NextHops[i].Encap); err != nil {
			return r, err
		}
		r.NextHops[i].Weight = max(r.NextHops[i].Weight, 1)
	}
	if r.Nexthop != 0 {
		return n.byNexthop(r)
	}
	if r.Dst.Addr().Is6() {
		return n.checked6(r)
	}
	return n.checked4(r)
}

// The types of routes; those that reject lead nowhere.
var (
	rejects    = []string{"blackhole", "unreachable", "prohibit", "throw"}
	routeTypes = append([]string{"unicast", "local", "broadcast", "anycast", "multicast", "nat"}, rejects...)
)

func (n *namespace) checked4(r kernel.Route) (kernel.Route, error) {
	scope, err := scopeOf(r)
	if err != nil {
		return r, err
	}
	r.Scope = scopeName(scope)
	if slices.Contains(rejects, r.Type) {
		if r.Index != 0 || r.Gateway.IsValid() || len(r.NextHops) > 0 {
			return r, syscall.EINVAL
		}
		return r, nil
	}
	if len(r.NextHops) == 0 {
		if err := n.checkWay4(&r.Index, r.Gateway, r.Onlink, scope, r.Table); err != nil {
			return r, hinted(r, err)
		}
	}
	for i := range r.NextHops {
		h := &r.NextHops[i]
		if err := n.checkWay4(&h.Index, h.Gateway, r.Onlink, scope, r.Table); err != nil {
			return r, hinted(r, err)
		}
	}
	if r.Src.IsValid() && !n.isLocal(r.Src) {
		return r, syscall.EINVAL
	}
	return r, nil
}

// hinted says what the kernel means by its commonest refusals.
func hinted(r kernel.Route, err error) error {
	if err == syscall.ENETUNREACH || err == syscall.EHOSTUNREACH {
		return r.NoWay(err)
	}
	return err
}

// checkWay4 reports why a way cannot be taken. A way without a link gets the one on which its
// gateway is.
func (n *namespace) checkWay4(index *int, gateway netip.Addr, onlink bool, scope uint8, in uint32) error {
	if !gateway.IsValid() {
		l := n.links[*index]
		switch {
		case l == nil:
			return refused(syscall.ENODEV)
		case !l.Up:
			return refused(syscall.ENETDOWN)
		}
		return nil
	}
	if gateway.Is6() {
		return n.checkGateway6(index, gateway, onlink)
	}
	if scope >= scopeLink {
		return syscall.EINVAL
	}
	if onlink {
		l := n.links[*index]
		switch {
		case l == nil:
			return refused(syscall.ENODEV)
		case !l.Up:
			return refused(syscall.ENETDOWN)
		case n.isLocal(gateway), gateway.IsMulticast(), !n.hadIPv4:
			return syscall.EINVAL
		}
		return nil
	}
	if *index != 0 && n.links[*index] == nil {
		return syscall.ENETUNREACH
	}
	if own := n.linkWith(gateway, *index); own != nil { // packets stay here
		*index = own.Index
		if !own.Up {
			return refused(syscall.ENETDOWN)
		}
		return nil
	}
	found := n.wayTo(gateway, *index, in)
	if found == nil {
		return syscall.ENETUNREACH
	}
	*index = found.Index
	return nil
}

// wayTo is the route that leads straight to an address, by a link if one is given. It is looked
// for in a table of its own, in that of the VRF of the link, and then in main.
func (n *namespace) wayTo(a netip.Addr, index int, in uint32) (best *kernel.Route) {
	var tables []uint32
	if in != tableMain {
		tables = append(tables, in)
	}
	if l := n.links[index]; l != nil && l.table() != tableMain {
		tables = append(tables, l.table())
	}
	tables = append(tables, tableMain)
	for _, t := range tables {
		for bits := a.BitLen(); bits >= 0; bits-- {
			dst, _ := a.Prefix(bits)
			for _, r := range n.routes.to(dst) {
				if r.Table != t || r.Type != "unicast" || r.Gateway.IsValid() || len(r.NextHops) > 0 || r.Index == 0 ||
					index != 0 && r.Index != index || a.Is4() && r.Scope == "global" {
					continue
				}
				return &r
			}
		}
	}
	return nil
}

func (n *namespace) checked6(r kernel.Route) (kernel.Route, error) {
	r.Scope, r.Metric, r.Protocol = "global", cmp.Or(r.Metric, metric6), cmp.Or(r.Protocol, protoBoot)
	if slices.Contains(rejects, r.Type) {
		r.Index = 1 // shown so
		return r, nil
	}
	if len(r.NextHops) == 0 {
		if err := n.checkWay6(&r.Index, r.Gateway, r.Onlink); err != nil {
			return r, hinted(r, err)
		}
	}
	if slices.ContainsFunc(r.NextHops, func(h kernel.NextHop) bool { return !h.Gateway.IsValid() }) {
		return r, syscall.EINVAL
	}
	for i := range r.NextHops {
		h := &r.NextHops[i]
		if err := n.checkWay6(&h.Index, h.Gateway, r.Onlink); err != nil {
			return r, hinted(r, err)
		}
	}
	if r.Src.IsValid() && !n.isLocal(r.Src) {
		return r, syscall.EINVAL
	}
	return r, nil
}

func (n *namespace) checkWay6(index *int, gateway netip.Addr, onlink bool) error {
	if gateway.IsValid() {
		return n.checkGateway6(index, gateway, onlink)
	}
	return usable6(n.links[*index])
}

// leadsElsewhere reports whether a route that is no default one leads to an address, but not by
// that link.
func (n *namespace) leadsElsewhere(a netip.Addr, l *link) bool {
	for bits := a.BitLen(); bits > 0 && !a.IsLinkLocalUnicast(); bits-- {
		dst, _ := a.Prefix(bits)
		var there, here bool
		for _, r := range n.routes.to(dst) {
			counts := r.Table == tableMain && !slices.Contains(rejects, r.Type)
			there = there || counts
			here = here || counts && r.Index == l.Index
		}
		if there {
			return !here
		}
	}
	return false
}

// usable6 reports why packets of IPv6 cannot leave by a link.
func usable6(l *link) error {
	switch {
	case l == nil, l.MTU < minMTU6:
		return refused(syscall.ENODEV)
	case !l.Up:
		return refused(syscall.ENETDOWN)
	}
	return nil
}

func (n *namespace) checkGateway6(index *int, gateway netip.Addr, onlink bool) error {
	l := n.links[*index]
	switch {
	case *index != 0 && (l == nil || l.MTU < minMTU6):
		return refused(syscall.ENODEV)
	case onlink && l != nil && !l.Up:
		return refused(syscall.ENETDOWN)
	case onlink && l != nil && n.leadsElsewhere(gateway, l):
		return syscall.EINVAL
	case gateway.Is4(), gateway.IsMulticast(), n.isLocal(gateway), gateway.IsLinkLocalUnicast() && l == nil, onlink && l == nil:
		return syscall.EINVAL
	}
	if !onlink && !gateway.IsLinkLocalUnicast() {
		found := n.wayTo(gateway, *index, tableMain)
		if found == nil {
			return syscall.EHOSTUNREACH
		}
		*index = found.Index
		l = n.links[*index]
	}
	return usable6(l)
}

// byNexthop is a route by a nexthop, which tells where it leads.
func (n *namespace) byNexthop(r kernel.Route) (kernel.Route, error) {
	h := n.nexthops[r.Nexthop]
	if h == nil {
		return r, syscall.EINVAL
	}
	if r.Dst.Addr().Is6() {
		r.Scope, r.Metric, r.Protocol = "global", cmp.Or(r.Metric, metric6), cmp.Or(r.Protocol, protoBoot)
	}
	if r.Dst.Addr().Is4() == n.isIPv6(h) && (r.Dst.Addr().Is6() || !n.hasGateway6(h)) {
		return r, syscall.EINVAL
	}
	if r.Dst.Addr().Is4() {
		scope, err := scopeOf(r)
		if err != nil {
			return r, err
		}
		r.Scope = scopeName(scope)
	}
	r.Index, r.Gateway, r.NextHops, r.Onlink, r.Encap = 0, netip.Addr{}, nil, false, kernel.Encap{}
	n.fill(&r, h)
	return r, nil
}

// fill tells in a route where its nexthop leads.
func (n *namespace) fill(r *kernel.Route, h *kernel.Nexthop) {
	r.Index, r.Gateway, r.Encap, r.NextHops = h.Index, h.Gateway, h.Encap, nil
	if h.Blackhole && r.Dst.Addr().Is6() {
		r.Index = 1
	}
	for _, m := range h.Group {
		if one := n.nexthops[m.ID]; one != nil {
			r.NextHops = append(r.NextHops, kernel.NextHop{Index: one.Index, Gateway: one.Gateway, Weight: m.Weight, Encap: one.Encap})
		}
	}
}

// DeleteRoute removes the route that agrees in destination, table, metric, protocol, type and
// ways.
func (k *Kernel) DeleteRoute(ns kernel.NS, r kernel.Route) error {
	return k.write(ns, "DeleteRoute", "delete "+routeName(r), func(n *namespace) error {
		if !r.Dst.IsValid() || r.Dst.Addr().Is4In6() {
			return fmt.Errorf("not a destination: %w", syscall.EINVAL)
		}
		r.Dst, r.Table, r.Type = r.Dst.Masked(), cmp.Or(r.Table, tableMain), cmp.Or(r.Type, "unicast")
		if r.Dst.Addr().Is6() {
			r.Metric = cmp.Or(r.Metric, metric6)
		}
		for _, there := range n.routes.byID[idOf(r)] {
			if there.Type == r.Type && (r.Protocol == 0 || there.Protocol == r.Protocol) && leads(r, there) {
				k.removeRoute(n, there, true)
				return nil
			}
		}
		if r.Table == tableLocal && r.Type == "local" && (r.Protocol == 0 || r.Protocol == protoKernel) && k.loseLocal(n, r) {
			return nil
		}
		return refused(syscall.ESRCH)
	})
}

// leads reports whether a route leads where it is asked to; what is not asked agrees.
func leads(asked, there kernel.Route) bool {
	if asked.Nexthop != 0 || there.Nexthop != 0 {
		return asked.Nexthop == there.Nexthop || asked.Nexthop == 0 && asked.Index == 0 && !asked.Gateway.IsValid() && len(asked.NextHops) == 0
	}
	if len(asked.NextHops) > 0 {
		return slices.EqualFunc(asked.NextHops, there.NextHops, func(a, b kernel.NextHop) bool {
			return a.Index == b.Index && a.Gateway == b.Gateway && max(a.Weight, 1) == max(b.Weight, 1)
		})
	}
	ways := there.NextHops
	if len(ways) == 0 {
		ways = []kernel.NextHop{{Index: there.Index, Gateway: there.Gateway}}
	}
	return slices.ContainsFunc(ways, func(h kernel.NextHop) bool {
		return (asked.Index == 0 || asked.Index == h.Index) && (!asked.Gateway.IsValid() || asked.Gateway == h.Gateway)
	})
}

var scopes = map[string]uint8{"global": 0, "site": 200, "link": scopeLink, "host": scopeHost, "nowhere": 255}

func scopeName(n uint8) string {
	for name, number := range scopes {
		if number == n {
			return name
		}
	}
	return strconv.Itoa(int(n))
}

// scopeOf is the scope of an IPv4 route; what is not given follows from where it leads to.
func scopeOf(r kernel.Route) (uint8, error) {
	if r.Scope != "" {
		if n, known := scopes[r.Scope]; known {
			return n, nil
		}
		n, err := strconv.ParseUint(r.Scope, 10, 8)
		if err != nil {
			return 0, fmt.Errorf("no route scope %q: %w", r.Scope, syscall.EINVAL)
		}
		return uint8(n), nil
	}
	switch r.Type {
	case "local":
		return scopeHost, nil
	case "broadcast", "multicast", "anycast":
		return scopeLink, nil
	case "unicast":
		if !r.Gateway.IsValid() && len(r.NextHops) == 0 && r.Nexthop == 0 {
			return scopeLink, nil
		}
	}
	return 0, nil
}
