package kerneltest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Text is what there is in the own namespace and in the named ones, as commands of ip(8),
// bridge(8), tc(8) and wg(8) that make the same. What a kernel makes by itself stands behind a #. Left
// out are hardware addresses, which a kernel gives at random, the secrets of WireGuard, and the
// tunnels that are in every namespace, such as gre0, as long as nobody changes them.
func Text(k kernel.Kernel) (string, error) {
	t := &text{k: k, names: map[kernel.LinkRef]string{}, of: map[kernel.NS]string{k.Own(): ""}}
	named, err := k.ListNamed()
	if err != nil {
		return "", err
	}
	all := []kernel.NS{k.Own()}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		t.of[named[name]] = name
		all = append(all, named[name])
		fmt.Fprintf(&t.b, "ip netns add %s\n", name)
	}
	for _, part := range []func(kernel.NS) error{t.born, t.set, t.wireGuards, t.addresses, t.neighbors, t.forwarding, t.nexthops, t.routes, t.rules, t.traffic} {
		for _, ns := range all {
			if err := part(ns); err != nil && !errors.Is(err, kernel.ErrNoNamespace) {
				return "", err
			}
		}
	}
	return t.b.String(), nil
}

type text struct {
	k     kernel.Kernel
	b     strings.Builder
	of    map[kernel.NS]string // the names of namespaces
	names map[kernel.LinkRef]string
}

// line adds a command, with what of the words is not empty.
func (t *text) line(ns kernel.NS, tool string, words ...string) {
	if name := t.of[ns]; name != "" {
		tool = strings.Replace(tool, "ip", "ip -n "+name, 1)
		tool = strings.Replace(tool, "bridge", "bridge -n "+name, 1)
		tool = strings.Replace(tool, "tc", "tc -n "+name, 1)
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	t.b.WriteString(tool + " " + strings.Join(words, " ") + "\n")
}

// option is a word and its value, or nothing if that is its zero value.
func option[V comparable](word string, v V) string {
	var zero V
	if v == zero {
		return ""
	}
	return fmt.Sprintf("%s %v", word, v)
}

// born are the links, each after the one below it.
func (t *text) born(ns kernel.NS) error {
	links, err := t.k.Links(ns)
	if err != nil {
		return err
	}
	for _, l := range links {
		t.names[l.Ref()] = l.Name
	}
	slices.SortStableFunc(links, func(a, b kernel.Link) int { return cmp.Compare(layer(a), layer(b)) })
	for _, l := range links {
		t.bornLink(l)
	}
	return nil
}

func layer(l kernel.Link) int {
	if l.Type != "veth" && l.Parent != 0 || l.Vxlan != nil {
		return 1
	}
	return 0
}

func (t *text) bornLink(l kernel.Link) {
	on := ""
	if l.Parent != 0 && l.Type != "veth" {
		on = "link " + t.name(kernel.LinkRef{NS: l.NS, Index: l.Parent})
		if l.ParentNS != l.NS {
			on = "link " + t.name(kernel.LinkRef{NS: l.ParentNS, Index: l.Parent}) + " link-netns " + t.namespace(l.ParentNS)
		}
	}
	kind := []string{"type " + l.Type}
	switch {
	case l.Name == loopback, isFallback(l):
		return
	case l.Type == "veth":
		peer := kernel.LinkRef{NS: l.ParentNS, Index: l.Parent}
		if l.ParentNS == 0 {
			return
		}
		if _, done := t.names[peer]; done && (peer.NS != l.NS || peer.Index > l.Index) {
			return // it is made with the other end, which is born after it
		}
		p, err := t.k.LinkByIndex(peer.NS, peer.Index)
		if err != nil {
			return
		}
		kind = append(kind, "peer name "+p.Name)
		if peer.NS != l.NS {
			kind = append(kind, "netns "+t.namespace(peer.NS))
		}
	case l.Vxlan != nil:
		v := l.Vxlan
		id := fmt.Sprintf("id %d", v.VNI)
		if v.External {
			id = "external"
		}
		kind = append(kind, id, addressOption("local", v.Local), addressOption("remote", v.Remote), t.dev(v.ParentNS, v.Parent),
			fmt.Sprintf("dstport %d", v.Port))
		if !v.Learning {
			kind = append(kind, "nolearning")
		}
		on = ""
	case l.Macvlan != nil:
		kind = append(kind, "mode "+l.Macvlan.Mode)
	case l.Ipvlan != nil:
		kind = append(kind, "mode "+l.Ipvlan.Mode)
	case l.Vlan != nil:
		kind = append(kind, "protocol "+l.Vlan.Protocol, fmt.Sprintf("id %d", l.Vlan.ID))
	case l.Vrf != nil:
		kind = append(kind, fmt.Sprintf("table %d", l.Vrf.Table))
	case l.Bond != nil:
		kind = append(kind, bondText(l.Bond)...)
	case l.Tunnel != nil:
		kind, on = append(kind, t.tunnelText(l)...), ""
	case l.Geneve != nil:
		kind = append(kind, geneveText(l.Geneve)...)
	case l.Tuntap != nil:
		mode := "tap"
		if l.Tuntap.Tun {
			mode = "tun"
		}
		t.line(l.NS, "ip tuntap", "add dev", l.Name, "mode "+mode)
		return
	}
	t.line(l.NS, "ip link", append([]string{"add name", l.Name, on}, kind...)...)
}

func (t *text) dev(ns kernel.NS, index int) string {
	if index == 0 {
		return ""
	}
	return "dev " + t.name(kernel.LinkRef{NS: ns, Index: index})
}

// name is what a link is called, or its number where nobody knows.
func (t *text) name(ref kernel.LinkRef) string {
	if name, known := t.names[ref]; known {
		return name
	}
	if l, err := t.k.LinkByIndex(ref.NS, ref.Index); err == nil {
		return l.Name
	}
	return fmt.Sprintf("if%d", ref.Index)
}

// namespace is how ip names a namespace: the own one by the first process.
func (t *text) namespace(ns kernel.NS) string {
	name, known := t.of[ns]
	if !known {
		return fmt.Sprintf("net:[%d]", ns)
	}
	return cmp.Or(name, "1")
}

func addressOption(word string, a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return word + " " + a.String()
}

// set is what links are given after their birth.
func (t *text) set(ns kernel.NS) error {
	links, err := t.k.Links(ns)
	inBond := map[int]bool{} // by the index of their master
	for _, l := range links {
		inBond[l.Index] = l.Bond != nil
	}
	for _, l := range links {
		var words []string
		mtu := 1500
		switch {
		case l.Name == loopback:
			mtu = 65536
		case l.Vrf != nil:
			mtu = l.MTU // it has no meaning
		case isFallback(l):
			mtu = fallbackMTU(l)
		}
		if l.MTU != mtu {
			words = append(words, fmt.Sprintf("mtu %d", l.MTU))
		}
		words = append(words, option("group", l.Group))
		if l.Alias != "" {
			words = append(words, "alias "+l.Alias)
		}
		if l.Master != 0 {
			words = append(words, "master "+t.name(kernel.LinkRef{NS: ns, Index: l.Master}))
		}
		if l.Up && !inBond[l.Master] { // of which the ports go up by themselves
			words = append(words, "up")
		}
		if words = slices.DeleteFunc(words, func(w string) bool { return w == "" }); len(words) > 0 {
			t.line(ns, "ip link", append([]string{"set dev", l.Name}, words...)...)
		}
		if !l.Up && inBond[l.Master] {
			t.line(ns, "ip link", "set dev", l.Name, "down")
		}
		for _, name := range l.AltNames {
			t.line(ns, "ip link", "property add dev", l.Name, "altname", name)
		}
	}
	return err
}

func (t *text) addresses(ns kernel.NS) error {
	all, err := t.k.Addresses(ns, 0)
	for _, a := range all {
		name := t.name(kernel.LinkRef{NS: ns, Index: a.Index})
		what, tool := a.Prefix.String(), "ip addr"
		if a.Peer.IsValid() {
			what = fmt.Sprintf("%s peer %s/%d", a.Prefix.Addr(), a.Peer, a.Prefix.Bits())
		}
		if a.Kernel {
			tool = "# ip addr"
			if a.Prefix.Addr().IsLinkLocalUnicast() {
				what = "fe80::/64"
			}
		}
		words := []string{"add", what, "dev " + name}
		if a.Label != "" && a.Label != name {
			words = append(words, "label "+a.Label)
		}
		if a.Prefix.Addr().Is4() {
			words = append(words, option("scope", map[int]string{scopeLink: "link", scopeHost: "host"}[a.Scope]))
		} else if a.NoDetection {
			words = append(words, "nodad")
		}
		words = append(words, option("metric", a.Metric))
		if a.NoPrefixRoute {
			words = append(words, "noprefixroute")
		}
		words = append(words, option("valid_lft", min(a.Valid, 1)))
		if a.Secondary {
			words = append(words, "# secondary")
		}
		t.line(ns, tool, words...)
	}
	return err
}

func (t *text) neighbors(ns kernel.NS) error {
	all, err := t.k.Neighbors(ns)
	for _, r := range all {
		t.line(ns, "ip neigh", "add", r.Address.String(), "lladdr "+r.MAC, "dev "+t.name(kernel.LinkRef{NS: ns, Index: r.Index}), option("proto", r.Protocol))
	}
	return err
}

// forwarding are the entries of bridges and vxlans. One without a VLAN a kernel that knows
// VLANs makes in those of the port as well.
func (t *text) forwarding(ns kernel.NS) error {
	all, err := t.k.FDB(ns)
	made := map[kernel.FDBPlace]bool{} // with their vxlan
	links, err2 := t.k.Links(ns)
	for _, l := range links {
		if l.Vxlan != nil && l.Vxlan.Remote.IsValid() {
			e := kernel.FDBEntry{Table: l.Index, MAC: kernel.ZeroMAC, Address: l.Vxlan.Remote}
			made[e.Place()] = true
			if !slices.ContainsFunc(all, func(other kernel.FDBEntry) bool { return other.Place() == e.Place() }) {
				t.line(ns, "bridge fdb", "del", e.MAC, "dev "+l.Name, addressOption("dst", e.Address))
			}
		}
	}
	for _, e := range all {
		whole := e
		whole.VLAN = 0
		switch {
		case e.Local || e.Special || made[e.Place()] || e.VLAN != 0 && slices.Contains(all, whole):
		case e.Port == 0:
			t.line(ns, "bridge fdb", "append", e.MAC, "dev "+t.name(kernel.LinkRef{NS: ns, Index: e.Table}), addressOption("dst", e.Address))
		default:
			t.line(ns, "bridge fdb", "add", e.MAC, "dev "+t.name(kernel.LinkRef{NS: ns, Index: e.Port}), "master static", option("vlan", e.VLAN))
		}
	}
	return errors.Join(err, err2)
}

func (t *text) nexthops(ns kernel.NS) error {
	all, err := t.k.Nexthops(ns)
	slices.SortStableFunc(all, func(a, b kernel.Nexthop) int { return cmp.Compare(min(1, len(a.Group)), min(1, len(b.Group))) })
	for _, h := range all {
		words := []string{fmt.Sprintf("add id %d", h.ID)}
		if h.Protocol != 0 {
			words = append(words, fmt.Sprintf("proto %d", h.Protocol))
		}
		switch {
		case len(h.Group) > 0:
			var group []string
			for _, m := range h.Group {
				group = append(group, fmt.Sprintf("%d,%d", m.ID, m.Weight))
			}
			words = append(words, "group "+strings.Join(group, "/"))
		case h.Blackhole:
			words = append(words, "blackhole")
		default:
			words = append(words, encapText(h.Encap), addressOption("via", h.Gateway), "dev "+t.name(kernel.LinkRef{NS: ns, Index: h.Index}))
			if h.Onlink {
				words = append(words, "onlink")
			}
		}
		tool := "ip nexthop"
		if h.IPv6 && h.Blackhole {
			tool = "ip -6 nexthop"
		}
		t.line(ns, tool, words...)
	}
	return err
}

// routes are those by no gateway first: by them the gateways of others are reached.
func (t *text) routes(ns kernel.NS) error {
	all, err := t.k.Routes(ns)
	far := func(r kernel.Route) int {
		if r.Gateway.IsValid() || len(r.NextHops) > 0 {
			return 1
		}
		return 0
	}
	device := func(r kernel.Route) string {
		if r.Protocol == protoKernel { // those of several links come in no order
			return t.name(kernel.LinkRef{NS: ns, Index: r.Index})
		}
		return ""
	}
	slices.SortStableFunc(all, func(a, b kernel.Route) int {
		return cmp.Or(cmp.Compare(far(a), far(b)), compareRoutes(a, b), cmp.Compare(device(a), device(b)))
	})
	for _, r := range all {
		tool := "ip route"
		if r.Dst.Addr().Is6() {
			tool = "ip -6 route"
		}
		if r.Protocol == protoKernel {
			tool = "# " + tool
		}
		t.line(ns, tool, t.routeWords(ns, r)...)
	}
	return err
}

func (t *text) routeWords(ns kernel.NS, r kernel.Route) []string {
	words := []string{"add"}
	if r.Type != "unicast" {
		words = append(words, r.Type)
	}
	switch dst := r.Dst; {
	case dst.Bits() == 0:
		words = append(words, "default")
	case r.Protocol == protoKernel && dst.Addr().IsLinkLocalUnicast() && dst.IsSingleIP(): // made of a hardware address
		words = append(words, "fe80::/128")
	default:
		words = append(words, dst.String())
	}
	way := func(gateway netip.Addr, index int) string {
		s := ""
		switch {
		case !gateway.IsValid():
		case gateway.Is6() && r.Dst.Addr().Is4():
			s = "via inet6 " + gateway.String() + " "
		default:
			s = "via " + gateway.String() + " "
		}
		if index != 0 {
			s += "dev " + t.name(kernel.LinkRef{NS: ns, Index: index})
		}
		return strings.TrimSpace(s)
	}
	reject := slices.Contains(rejects, r.Type)
	if r.Nexthop != 0 {
		words = append(words, fmt.Sprintf("nhid %d", r.Nexthop))
	} else if len(r.NextHops) == 0 && !reject {
		words = append(words, encapText(r.Encap), way(r.Gateway, r.Index))
	}
	if r.Onlink && len(r.NextHops) == 0 {
		words = append(words, "onlink")
	}
	if r.Table != tableMain {
		words = append(words, fmt.Sprintf("table %d", r.Table))
	}
	if r.Dst.Addr().Is4() || r.Metric != metric6 {
		words = append(words, option("metric", r.Metric))
	}
	words = append(words, option("proto", r.Protocol))
	if r.Dst.Addr().Is4() && r.Scope != "global" {
		words = append(words, "scope "+r.Scope)
	}
	words = append(words, addressOption("src", r.Src), option("mtu", r.MTU))
	if r.Nexthop == 0 {
		for _, h := range r.NextHops {
			onlink := ""
			if r.Onlink {
				onlink = " onlink"
			}
			words = append(words, fmt.Sprintf("nexthop %s weight %d%s", strings.TrimSpace(encapText(h.Encap)+" "+way(h.Gateway, h.Index)), h.Weight, onlink))
		}
	}
	return words
}

// rules are those that a namespace does not begin with.
func (t *text) rules(ns kernel.NS) error {
	all, err := t.k.Rules(ns)
	for _, r := range all {
		if slices.Contains(firstRules, r) || r.More {
			continue
		}
		tool := "ip rule"
		if r.IPv6 {
			tool = "ip -6 rule"
		}
		words := []string{fmt.Sprintf("add pref %d", r.Priority)}
		for word, p := range map[string]netip.Prefix{"from": r.From, "to": r.To} {
			if p.IsValid() {
				words = append(words, word+" "+p.String())
			}
		}
		slices.Sort(words[1:])
		if r.Mask != 0 {
			words = append(words, fmt.Sprintf("fwmark %#x/%#x", r.Mark, r.Mask))
		}
		words = append(words, option("iif", r.Iif), option("oif", r.Oif))
		if r.Action == "lookup" {
			words = append(words, fmt.Sprintf("table %d", r.Table))
		} else {
			words = append(words, "type "+r.Action)
		}
		t.line(ns, tool, append(words, option("proto", r.Protocol))...)
	}
	return err
}
