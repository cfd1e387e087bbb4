package models

import (
	"maps"
	"slices"
)

// DefaultVxlanPort is the UDP port that was assigned to VXLAN.
const DefaultVxlanPort = 4789

// EffectivePort is the UDP port: port, default 4789.
func (x *Vxlan) EffectivePort() uint32 { return orDefault(x.GetPort(), DefaultVxlanPort) }

// EffectiveProtocol is the VLAN protocol: protocol, default 802.1q.
func (x *Vlan) EffectiveProtocol() string { return orDefault(x.GetProtocol(), "802.1q") }

// EffectiveMode is the mode of a macvlan: mode, default bridge.
func (x *Macvlan) EffectiveMode() string { return orDefault(x.GetMode(), "bridge") }

// EffectiveMode is the mode of an ipvlan: mode, default l2.
func (x *Ipvlan) EffectiveMode() string { return orDefault(x.GetMode(), "l2") }

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// checkLink checks what belongs to the type of the link.
func (x *Interface) checkLink(name string, f *findings) {
	switch l := x.GetLink().(type) {
	case nil:
		f.add("", "names no link type; write one of veth, bridge, vxlan, vlan, macvlan, ipvlan, dummy, tap, tun, vrf, bond, wireguard, gre, gretap, ipip, sit, geneve, ifb, loopback, existing, for example dummy: {}")
	case *Interface_Veth:
		checkRef(l.Veth.GetPeer(), "veth.peer", "the other end", f)
		if l.Veth.GetPeer() == name {
			f.add("veth.peer", "is the interface itself; a veth has two ends")
		}
	case *Interface_Vxlan:
		l.Vxlan.check(name, f)
	case *Interface_Vlan:
		checkParent(l.Vlan.GetParent(), "vlan.parent", name, f)
	case *Interface_Macvlan:
		checkParent(l.Macvlan.GetParent(), "macvlan.parent", name, f)
	case *Interface_Ipvlan:
		checkParent(l.Ipvlan.GetParent(), "ipvlan.parent", name, f)
	case *Interface_Bond:
		l.Bond.check(f)
	case *Interface_Wireguard:
		l.Wireguard.check(f)
	case *Interface_Gre, *Interface_Gretap, *Interface_Ipip, *Interface_Sit:
		x.checkTunnel(name, f)
	case *Interface_Geneve:
		l.Geneve.check(f)
	case *Interface_Loopback:
		if x.Master != "" {
			f.add("master", "a loopback cannot belong to another interface; leave it out")
		}
	}
}

func checkParent(parent, at, name string, f *findings) {
	checkRef(parent, at, "the interface below", f)
	if parent != "" && parent == name {
		f.add(at, "is the interface itself")
	}
}

// refuseExternal: what the encap of routes says, a tunnel with external does not.
func refuseExternal(f *findings, typ string, set map[string]bool) {
	for _, field := range slices.Sorted(maps.Keys(set)) {
		if set[field] {
			f.add(typ+"."+field, "not together with external, which leaves that to the encap of routes; leave it out")
		}
	}
}

func (x *Vxlan) check(name string, f *findings) {
	if x.GetParent() != "" {
		checkParent(x.GetParent(), "vxlan.parent", name, f)
	}
	if x.GetExternal() {
		refuseExternal(f, "vxlan", map[string]bool{"vni": x.GetVni() != 0, "local": x.GetLocal() != "",
			"remote": x.GetRemote() != "", "group": x.GetGroup() != "", "no_learning": x.GetNoLearning()})
		return
	}
	if x.GetVni() == 0 {
		f.add("vxlan.vni", "must be given, from 1 to 16777215 (or external)")
	}
	families := map[string]string{}
	note := func(field, text string, multicast bool) {
		at := "vxlan." + field
		a, ok := parseIP(text, at, f)
		if !ok {
			return
		}
		switch {
		case !multicast && field == "remote" && a.IsMulticast():
			f.add(at, "%s is a multicast group; write it as group, with parent", a)
		case multicast && !a.IsMulticast():
			f.add(at, "%s is no multicast group (224.0.0.0/4 or ff00::/8); a single other end is written as remote", a)
		case !multicast:
			checkUnicast(a, at, f)
		}
		for _, other := range []string{"local", "remote", "group"} {
			if fam, ok := families[other]; ok && fam != family(a) {
				f.add(at, "is %s, but %s is %s; all must be of one family", family(a), other, fam)
				return
			}
		}
		families[field] = family(a)
	}
	if x.GetLocal() != "" {
		note("local", x.GetLocal(), false)
	}
	if x.GetRemote() != "" {
		note("remote", x.GetRemote(), false)
	}
	if x.GetGroup() == "" {
		return
	}
	note("group", x.GetGroup(), true)
	if x.GetRemote() != "" {
		f.add("vxlan.group", "not together with remote; keep one")
	}
	if x.GetParent() == "" {
		f.add("vxlan.group", "needs parent: the interface that carries the multicast")
	}
}
