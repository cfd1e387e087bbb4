package models

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// DefaultDestination is how the destination of a default route may be written.
const DefaultDestination = "default"

// MainTable is the routing table that a route is in unless it says otherwise.
const MainTable = 254

// EffectiveTable is the routing table: table, default 254.
func (x *Route) EffectiveTable() uint32 { return orDefault(x.GetTable(), MainTable) }

// EffectiveType is the type of the route: type, default unicast.
func (x *Route) EffectiveType() string { return orDefault(x.GetType(), "unicast") }

// EffectiveMetric is the metric that the kernel gives the route: IPv6 knows no 0.
func (x *Route) EffectiveMetric() uint32 {
	if d, err := x.Prefix(); err == nil && d.Addr().Is6() {
		return orDefault(x.GetMetric(), 1024)
	}
	return x.GetMetric()
}

// EffectiveScope is the scope: scope, default link for a unicast route without
// a gateway or nexthop, else global. IPv6 routes have no other than global.
func (x *Route) EffectiveScope() string {
	d, err := x.Prefix()
	switch {
	case err == nil && d.Addr().Is6():
		return "global"
	case x.GetScope() != "":
		return x.GetScope()
	case x.EffectiveType() == "unicast" && x.GetGateway() == "" && len(x.GetNexthops()) == 0 && x.GetNexthop() == "":
		return "link"
	}
	return "global"
}

// EffectiveWeight is the share of the load: weight, default 1.
func (x *NextHop) EffectiveWeight() uint32 { return orDefault(x.GetWeight(), 1) }

// DestinationClaim is the ipclaim whose address is the destination, "" if none is.
func (x *Route) DestinationClaim() string {
	claim, claimed := strings.CutPrefix(x.GetDestination(), ClaimPrefix)
	if !claimed {
		return ""
	}
	return claim
}

// To is the same route to another destination.
func (x *Route) To(dst netip.Prefix) *Route {
	x = proto.CloneOf(x)
	x.Destination = dst.String()
	return x
}

// Prefix is the destination, with default resolved to the family of gateway or
// source. What a claim holds is not known here.
func (x *Route) Prefix() (netip.Prefix, error) {
	if x.GetDestination() != DefaultDestination {
		p, err := netip.ParsePrefix(x.GetDestination())
		if err != nil {
			return p, fmt.Errorf("destination: %w", err)
		}
		return p, nil
	}
	texts := []string{x.GetGateway(), x.GetSource()}
	for _, h := range x.GetNexthops() {
		texts = append(texts, h.GetGateway())
	}
	for _, s := range texts {
		if a, err := netip.ParseAddr(s); err == nil {
			if a.Is4() {
				return netip.PrefixFrom(netip.IPv4Unspecified(), 0), nil
			}
			return netip.PrefixFrom(netip.IPv6Unspecified(), 0), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("destination: default of which family? Write 0.0.0.0/0 or ::/0, or give a gateway or source")
}

// Interfaces are the logical names of the interfaces that the route uses, as written.
func (x *Route) Interfaces() []string {
	if x.GetInterface() != "" {
		return []string{x.GetInterface()}
	}
	var names []string
	for _, h := range x.GetNexthops() {
		names = append(names, h.GetInterface())
	}
	return names
}

func (x *Route) check(f *findings) {
	switch {
	case x.EffectiveType() == "unicast":
		x.checkWays(f)
	case slices.Contains(limits["Route.type"].words, x.Type):
		x.checkWayless(f)
	}
	dst, ok := x.checkDestination(f)
	fam := ""
	if ok {
		fam = family(dst.Addr())
	}
	x.checkRouters(fam, f)
	if fam == "IPv6" && minMTU <= x.Mtu && x.Mtu < minMTUv6 {
		f.add("mtu", "IPv6 needs at least %d, not %d", minMTUv6, x.Mtu)
	}
}

// checkWays: exactly one way of saying where packets leave.
func (x *Route) checkWays(f *findings) {
	if x.Nexthop != "" {
		x.checkNexthop(f)
		return
	}
	switch {
	case x.Interface != "" && len(x.Nexthops) > 0:
		f.add("nexthops", "not together with interface; keep one")
	case x.Namespace != nil && (x.Interface != "" || len(x.Nexthops) > 0):
		f.add("namespace", "not together with %s: the route lives where its interface does; leave it out", x.way())
	case x.Namespace != nil:
		f.add("namespace", "stands alone only for blackhole, unreachable, prohibit and throw; name the interface instead, or set type")
	case x.Interface == "" && len(x.Nexthops) == 0:
		f.add("interface", "must be given: the logical name of the interface that packets leave by (or nexthop, nexthops, or type blackhole)")
	}
	if x.Interface != "" {
		checkRef(x.Interface, "interface", "an interface", f)
	}
	if len(x.Nexthops) > 0 && x.Encap != nil {
		f.add("encap", "not together with nexthops; each next hop has its own")
	}
	x.Encap.check("encap", f)
	if len(x.Nexthops) > 0 && x.Gateway != "" {
		f.add("gateway", "not together with nexthops; each next hop has its own")
	}
	if x.Onlink && !x.hasGateway() {
		f.add("onlink", "needs a gateway")
	}
	if x.hasGateway() && (x.Scope == "link" || x.Scope == "host" || x.Scope == "nowhere") {
		f.add("scope", "a route by a gateway has scope global or site, not %s", x.Scope)
	}
	seen := map[string]int{}
	for i, h := range x.Nexthops {
		at := fmt.Sprintf("nexthops[%d]", i)
		checkRef(h.GetInterface(), at+".interface", "the interface that packets leave by", f)
		h.GetEncap().check(at+".encap", f)
		gateway := h.GetGateway()
		if a, err := netip.ParseAddr(gateway); err == nil {
			gateway = a.String()
		}
		id := h.GetInterface() + " " + gateway + " " + h.GetEncap().Text()
		if first, double := seen[id]; double {
			f.add(at, "is equal to nexthops[%d]; give one of them more weight instead", first)
			continue
		}
		seen[id] = i
	}
}

// checkNexthop: a nexthop says all of where packets leave.
func (x *Route) checkNexthop(f *findings) {
	checkName(x.Nexthop, KindNexthop, "nexthop", "a nexthop", f)
	refuse := func(set bool, field string) {
		if set {
			f.add(field, "not together with nexthop, which says where packets leave; leave it out")
		}
	}
	refuse(x.Interface != "", "interface")
	refuse(len(x.Nexthops) > 0, "nexthops")
	refuse(x.Namespace != nil, "namespace")
	refuse(x.Gateway != "", "gateway")
	refuse(x.Onlink, "onlink")
	refuse(x.Encap != nil, "encap")
}

func (x *Route) way() string {
	if x.Interface != "" {
		return "interface"
	}
	return "nexthops"
}

func (x *Route) hasGateway() bool {
	for _, h := range x.Nexthops {
		if h.GetGateway() != "" {
			return true
		}
	}
	return x.Gateway != ""
}

// checkWayless: types that drop packets name no way for them.
func (x *Route) checkWayless(f *findings) {
	refuse := func(set bool, field string) {
		if set {
			f.add(field, "not for type %s, which sends packets nowhere; use namespace to say where the route lives", x.Type)
		}
	}
	refuse(x.Interface != "", "interface")
	refuse(len(x.Nexthops) > 0, "nexthops")
	refuse(x.Nexthop != "", "nexthop")
	refuse(x.Gateway != "", "gateway")
	refuse(x.Onlink, "onlink")
	refuse(x.Encap != nil, "encap")
	if x.Namespace != nil {
		x.Namespace.check("namespace", f)
	}
}

func (x *Route) checkDestination(f *findings) (netip.Prefix, bool) {
	switch x.Destination {
	case "":
		f.add("destination", "must be given: a network such as 10.0.0.0/8, or default")
		return netip.Prefix{}, false
	case DefaultDestination:
		p, err := x.Prefix()
		if err != nil && x.Gateway == "" && (x.Source == "" || strings.HasPrefix(x.Source, ClaimPrefix)) {
			f.add("destination", "%s", strings.TrimPrefix(err.Error(), "destination: "))
		}
		return p, err == nil
	}
	if claim, claimed := strings.CutPrefix(x.Destination, ClaimPrefix); claimed {
		if err := CheckName(claim); err != nil {
			f.add("destination", "%s<ipclaim>: %v", ClaimPrefix, err)
		}
		return netip.Prefix{}, false
	}
	if a, err := netip.ParseAddr(x.Destination); err == nil && checkAddr(a, "destination", f) {
		f.add("destination", "%s has no length; did you mean %s/%d?", x.Destination, a, a.BitLen())
		return netip.Prefix{}, false
	}
	p, ok := parseCIDR(x.Destination, "destination", f)
	if ok && p != p.Masked() {
		f.add("destination", "%s has host bits set; the network is %s", x.Destination, p.Masked())
	}
	return p, ok
}

// checkRouters: all addresses are of the family of the destination, except that IPv4 packets can
// leave by an IPv6 gateway (RFC 8950).
func (x *Route) checkRouters(fam string, f *findings) {
	check := func(text, at string, others bool) {
		if text == "" {
			return
		}
		a, ok := parseIP(text, at, f)
		if !ok {
			return
		}
		checkUnicast(a, at, f)
		if fam != "" && family(a) != fam && !(others && a.Is6()) {
			f.add(at, "%s is %s, but the destination is %s", a, family(a), fam)
		}
	}
	check(x.Gateway, "gateway", true)
	if claim, claimed := strings.CutPrefix(x.Source, ClaimPrefix); !claimed {
		check(x.Source, "source", false)
	} else if err := CheckName(claim); err != nil {
		f.add("source", "%s<ipclaim>: %v", ClaimPrefix, err)
	}
	for i, h := range x.Nexthops {
		check(h.GetGateway(), fmt.Sprintf("nexthops[%d].gateway", i), true)
	}
}
