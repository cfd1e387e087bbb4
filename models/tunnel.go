package models

import "net/netip"

// DefaultGenevePort is the UDP port that was assigned to Geneve.
const DefaultGenevePort = 6081

// defaultTTL6 is what the kernel writes into outer IPv6 packets if nothing is said.
const defaultTTL6 = 64

// EffectivePort is the UDP port: port, default 6081.
func (x *Geneve) EffectivePort() uint32 { return orDefault(x.GetPort(), DefaultGenevePort) }

// Ends is what all tunnels of IP have, whatever they carry.
type Ends interface {
	GetLocal() string
	GetRemote() string
	GetParent() string
	GetTtl() uint32
	GetNoPmtuDiscovery() bool
}

// Tunnel is the tunnel of a value of type gre, gretap, ipip or sit, nil of another.
func (x *Interface) Tunnel() Ends {
	switch l := x.GetLink().(type) {
	case *Interface_Gre:
		return l.Gre
	case *Interface_Gretap:
		return l.Gretap
	case *Interface_Ipip:
		return l.Ipip
	case *Interface_Sit:
		return l.Sit
	}
	return nil
}

// TunnelIs6 reports whether the outer packets of a tunnel are IPv6.
func TunnelIs6(x Ends) bool {
	for _, text := range []string{x.GetLocal(), x.GetRemote()} {
		if a, err := netip.ParseAddr(text); err == nil {
			return a.Is6()
		}
	}
	return false
}

// TunnelTTL is ttl, or its default: 0, as many hops as the inner packet has left; in IPv6
// 64.
func TunnelTTL(x Ends) uint32 {
	if TunnelIs6(x) {
		return orDefault(x.GetTtl(), defaultTTL6)
	}
	return x.GetTtl()
}

// EncapLimit is encap_limit of a tunnel, nil if it is unset or the tunnel has none.
func EncapLimit(x Ends) *uint32 {
	switch t := x.(type) {
	case *Gre:
		return t.EncapLimit
	case *Tunnel:
		return t.EncapLimit
	}
	return nil
}

// checkTunnel checks a tunnel of IP.
func (x *Interface) checkTunnel(name string, f *findings) {
	t, typ := x.Tunnel(), x.LinkType()
	if g, ok := t.(*Gre); ok && g.GetExternal() {
		refuseExternal(f, typ, map[string]bool{"local": g.GetLocal() != "" && g.GetLocal() != "::", "remote": g.GetRemote() != "",
			"parent": g.GetParent() != "", "key": g.Key != nil, "ttl": g.GetTtl() != 0,
			"no_pmtu_discovery": g.GetNoPmtuDiscovery(), "checksum": g.GetChecksum(), "encap_limit": g.EncapLimit != nil})
		return
	}
	checkEnds(t, typ, f)
	if t.GetParent() != "" {
		checkParent(t.GetParent(), typ+".parent", name, f)
	}
	switch {
	case x.GetGretap() != nil && t.GetRemote() == "":
		f.add("gretap.remote", "must be given, such as 192.0.2.1")
	case t.GetLocal() == "" && t.GetRemote() == "":
		f.add(typ+".remote", "must be given, such as 192.0.2.1; local alone where there are many other ends")
	}
	if t.GetNoPmtuDiscovery() {
		if t.GetTtl() != 0 {
			f.add(typ+".no_pmtu_discovery", "not together with ttl; keep one")
		}
		if TunnelIs6(t) {
			f.add(typ+".no_pmtu_discovery", "is for IPv4; nobody on the way breaks up packets of IPv6")
		}
	}
	if EncapLimit(t) != nil && !TunnelIs6(t) {
		f.add(typ+".encap_limit", "is for IPv6; leave it out")
	}
}

// checkEnds checks the addresses of a tunnel, which are of one family.
func checkEnds(t Ends, typ string, f *findings) {
	var first netip.Addr
	for _, end := range []struct{ field, text string }{{"local", t.GetLocal()}, {"remote", t.GetRemote()}} {
		if end.text == "" {
			continue
		}
		at := typ + "." + end.field
		a, ok := parseIP(end.text, at, f)
		if !ok {
			continue
		}
		checkUnicast(a, at, f)
		switch {
		case typ == "sit" && a.Is6():
			f.add(at, "is IPv6, but a sit tunnel carries IPv6 in IPv4; ipip carries it in IPv6")
		case first.IsValid() && family(first) != family(a):
			f.add(at, "is %s, but local is %s; both must be of one family", family(a), family(first))
		}
		first = a
	}
}

func (x *Geneve) check(f *findings) {
	if x.GetExternal() {
		refuseExternal(f, "geneve", map[string]bool{"vni": x.GetVni() != 0, "remote": x.GetRemote() != "", "ttl": x.GetTtl() != 0})
		return
	}
	if x.GetVni() == 0 {
		f.add("geneve.vni", "must be given, from 1 to 16777215 (or external)")
	}
	if x.GetRemote() == "" {
		f.add("geneve.remote", "must be given, such as 192.0.2.1")
	} else if a, ok := parseIP(x.GetRemote(), "geneve.remote", f); ok {
		checkUnicast(a, "geneve.remote", f)
	}
}
