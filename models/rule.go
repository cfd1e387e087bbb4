package models

import "net/netip"

// LocalIif is the interface of packets that the host itself sends.
const LocalIif = "lo"

// EffectiveAction is what becomes of packets: action, default lookup.
func (x *Rule) EffectiveAction() string { return orDefault(x.GetAction(), "lookup") }

// EffectiveFwmask are the bits of the mark that count: fwmask, default all.
func (x *Rule) EffectiveFwmask() uint32 {
	if x.GetFwmark() == 0 {
		return x.GetFwmask()
	}
	return orDefault(x.GetFwmask(), 1<<32-1)
}

// IsIPv6 reports whether the rule is of IPv6.
func (x *Rule) IsIPv6() bool {
	for _, s := range []string{x.GetFrom(), x.GetTo()} {
		if p, err := netip.ParsePrefix(s); err == nil {
			return p.Addr().Is6()
		}
	}
	return x.GetFamily() == "ipv6"
}

// Interfaces are the logical names of the interfaces that the rule names.
func (x *Rule) Interfaces() (names []string) {
	if x.GetIif() != "" && x.GetIif() != LocalIif {
		names = append(names, x.GetIif())
	}
	if x.GetOif() != "" {
		names = append(names, x.GetOif())
	}
	return names
}

func (x *Rule) check(f *findings) {
	if len(x.Interfaces()) > 0 && x.Namespace != nil {
		f.add("namespace", "not together with iif or oif: the rule lives where the interface does; leave it out")
	} else if x.Namespace != nil {
		x.Namespace.check("namespace", f)
	}
	x.checkNetworks(f)
	if x.Iif != "" && x.Iif != LocalIif {
		checkRef(x.Iif, "iif", "an interface", f)
	}
	if x.Oif != "" {
		checkRef(x.Oif, "oif", "an interface", f)
	}
	switch {
	case x.EffectiveAction() == "lookup" && x.Table == 0:
		f.add("table", "must be given: the number of the routing table to look in")
	case x.EffectiveAction() != "lookup" && x.Table != 0:
		f.add("table", "not with action %s, which drops packets; leave it out", x.Action)
	}
}

// checkNetworks: from and to are networks of the one family of the rule.
func (x *Rule) checkNetworks(f *findings) {
	fam, of := "", ""
	if x.Family == "ipv4" || x.Family == "ipv6" {
		fam, of = map[string]string{"ipv4": "IPv4", "ipv6": "IPv6"}[x.Family], "family"
	}
	for _, n := range []struct{ field, text string }{{"from", x.From}, {"to", x.To}} {
		if n.text == "" {
			continue
		}
		p, ok := parseCIDR(n.text, n.field, f)
		switch {
		case !ok:
		case p != p.Masked():
			f.add(n.field, "%s has host bits set; the network is %s", n.text, p.Masked())
		case fam != "" && family(p.Addr()) != fam:
			f.add(n.field, "%s is %s, but %s says %s", n.text, family(p.Addr()), of, fam)
		default:
			fam, of = family(p.Addr()), n.field
		}
	}
	if x.From == "" && x.To == "" && x.Family == "" {
		f.add("family", "must be given, ipv4 or ipv6, where neither from nor to tells")
	}
}
