package models

import (
	"fmt"
	"net/netip"
)

// EffectiveFamily is of which routes the nexthop is: family, default that of gateway. A
// group has none of its own.
func (x *Nexthop) EffectiveFamily() string {
	switch a, err := netip.ParseAddr(x.GetGateway()); {
	case len(x.GetGroup()) > 0:
		return ""
	case x.GetFamily() != "" || err != nil:
		return x.GetFamily()
	case a.Is4():
		return "ipv4"
	}
	return "ipv6"
}

// EffectiveWeight is the share of the load: weight, default 1.
func (x *NexthopMember) EffectiveWeight() uint32 { return orDefault(x.GetWeight(), 1) }

func (x *Nexthop) check(f *findings) {
	switch {
	case x.Interface != "":
		x.checkInterface(f)
	case x.Blackhole:
		x.checkPlace("blackhole", f)
	case len(x.Group) > 0:
		x.checkPlace("group", f)
		x.checkMembers(f)
	default:
		f.add("interface", "must be given: the logical name of the interface that packets leave by (or blackhole, or group)")
		return
	}
	if x.Family == "" && x.EffectiveFamily() == "" && len(x.Group) == 0 && x.Gateway == "" {
		f.add("family", "must be given, ipv4 or ipv6, where no gateway tells")
	}
}

func (x *Nexthop) checkInterface(f *findings) {
	checkRef(x.Interface, "interface", "an interface", f)
	if x.Namespace != nil {
		f.add("namespace", "not together with interface: the nexthop lives where the interface does; leave it out")
	}
	if x.Blackhole {
		f.add("blackhole", "not together with interface; keep one")
	}
	if len(x.Group) > 0 {
		f.add("group", "not together with interface; keep one")
	}
	x.Encap.check("encap", f)
	if x.Gateway == "" {
		if x.Onlink {
			f.add("onlink", "needs a gateway")
		}
		return
	}
	a, ok := parseIP(x.Gateway, "gateway", f)
	if !ok {
		return
	}
	checkUnicast(a, "gateway", f)
	if named := map[string]string{"ipv4": "IPv4", "ipv6": "IPv6"}[x.Family]; named != "" && named != family(a) {
		f.add("gateway", "%s is %s, but family says %s", a, family(a), named)
	}
}

// checkPlace: what names no interface says in which namespace it is, and no way.
func (x *Nexthop) checkPlace(what string, f *findings) {
	if x.Namespace != nil {
		x.Namespace.check("namespace", f)
	}
	if x.Gateway != "" {
		f.add("gateway", "not together with %s; leave it out", what)
	}
	if x.Onlink {
		f.add("onlink", "not together with %s; leave it out", what)
	}
	if x.Encap != nil {
		f.add("encap", "not together with %s; leave it out", what)
	}
	if x.Blackhole && len(x.Group) > 0 {
		f.add("group", "not together with blackhole; keep one")
	}
	if what == "group" && x.Family != "" {
		f.add("family", "not together with group, which has that of its members; leave it out")
	}
}

func (x *Nexthop) checkMembers(f *findings) {
	seen := map[string]int{}
	for i, m := range x.Group {
		at := fmt.Sprintf("group[%d]", i)
		checkName(m.GetNexthop(), KindNexthop, at+".nexthop", "a nexthop", f)
		if first, double := seen[m.GetNexthop()]; double {
			f.add(at, "is equal to group[%d]; give one of them more weight instead", first)
			continue
		}
		seen[m.GetNexthop()] = i
	}
}
