package kerneltest

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// IP does what a command of ip(8), bridge(8), tc(8), wg(8), ethtool(8) or sysctl(8) says, by the port: "ip -n blue link
// add eth0 type dummy". It knows the words that [Text] writes, and those to change and delete.
// Without -n a command is about ns. Comments do nothing.
func IP(k kernel.Kernel, ns kernel.NS, command string) error {
	words := strings.Fields(command)
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "#") }); i >= 0 {
		words = words[:i]
	}
	if len(words) == 0 {
		return nil
	}
	c := &request{k: k, ns: ns, words: words[1:]}
	tool := words[0]
	if tool != "ethtool" { // of which they are the commands
		if err := c.options(); err != nil {
			return err
		}
	}
	if len(c.words) > 0 && tool != "sysctl" {
		tool += " " + c.next()
	}
	do := map[string]func() error{
		"ip netns": c.netns, "ip link": c.link, "ip tuntap": c.tuntap, "ip addr": c.address, "ip route": c.route, "ip rule": c.rule,
		"ip neigh": c.neighbor, "ip nexthop": c.nexthop, "bridge fdb": c.fdb, "bridge link": c.bridgePort, "bridge vlan": c.bridgeVLAN,
		"ethtool -K": c.offloads, "wg set": c.wireGuard, "sysctl": c.sysctl, "tc qdisc": c.qdisc, "tc filter": c.filter,
	}[tool]
	if do == nil {
		return fmt.Errorf("%q is no command here", tool)
	}
	if err := do(); err != nil {
		return err
	}
	return c.err
}

// request is a command on its way: what of its words is still to be read.
type request struct {
	k     kernel.Kernel
	ns    kernel.NS
	six   bool
	words []string
	err   error // the first word that is not understood
}

func (c *request) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// next takes the next word, "" at the end.
func (c *request) next() string {
	if len(c.words) == 0 {
		return ""
	}
	w := c.words[0]
	c.words = c.words[1:]
	return w
}

// each takes word by word; take reads what belongs to a word, and reports whether it knows it.
func (c *request) each(take func(word string) bool) error {
	for len(c.words) > 0 && c.err == nil {
		if w := c.next(); !take(w) {
			c.fail("%q is not understood here", w)
		}
	}
	return c.err
}

func (c *request) number() int {
	w := c.next()
	n, err := strconv.ParseUint(w, 0, 32)
	if err != nil {
		c.fail("%q is no number", w)
	}
	return int(n)
}

func (c *request) addr() netip.Addr {
	w := c.next()
	a, err := netip.ParseAddr(w)
	if err != nil {
		c.fail("%q is no address", w)
	}
	return a
}

// prefix is an address with a length, or all of it.
func (c *request) prefix() netip.Prefix {
	w := c.next()
	if w == "default" || w == "all" {
		if c.six {
			return netip.MustParsePrefix("::/0")
		}
		return netip.MustParsePrefix("0.0.0.0/0")
	}
	if p, err := netip.ParsePrefix(w); err == nil {
		return p
	}
	a, err := netip.ParseAddr(w)
	if err != nil {
		c.fail("%q is no address with a length", w)
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, a.BitLen())
}

// options are those before the command.
func (c *request) options() error {
	for len(c.words) > 0 && strings.HasPrefix(c.words[0], "-") {
		switch o := c.next(); o {
		case "-n":
			ns, err := c.named(c.next())
			if err != nil {
				return err
			}
			c.ns = ns
		case "-4":
		case "-6":
			c.six = true
		case "-w":
		default:
			return fmt.Errorf("%q is no option here", o)
		}
	}
	return nil
}

// named opens the namespace with a name. A port tells where names are by what it opens.
func (c *request) named(name string) (kernel.NS, error) {
	named, err := c.k.ListNamed()
	if err != nil {
		return 0, err
	}
	ns, there := named[name]
	if !there {
		return 0, fmt.Errorf("there is no namespace %q: %w", name, kernel.ErrNotExist)
	}
	if k, ok := c.k.(*Kernel); ok && !k.Alive(ns) {
		return k.Open(path.Join(k.opts.NamedDir, name))
	}
	return ns, nil
}

func (c *request) netns() error {
	switch act, name := c.next(), c.next(); act {
	case "add":
		_, err := c.k.CreateNamed(name)
		return err
	case "del", "delete":
		return c.k.DeleteNamed(name)
	default:
		return fmt.Errorf("%q is not understood here", act)
	}
}

// device is the index of a link with a name; with "dev" before it or not.
func (c *request) device() int {
	w := c.next()
	if w == "dev" {
		w = c.next()
	}
	return c.indexOf(c.ns, w)
}

func (c *request) indexOf(ns kernel.NS, name string) int {
	l, err := c.k.Link(ns, name)
	if err != nil {
		c.err = errors.Join(c.err, err)
	}
	return l.Index
}

func (c *request) link() error {
	switch act := c.next(); act {
	case "add":
		return c.addLink()
	case "set":
		return c.setLink()
	case "del", "delete":
		index := c.device()
		if c.err != nil {
			return c.err
		}
		return c.k.DeleteLink(c.ns, index)
	case "property":
		return c.property()
	default:
		return fmt.Errorf("%q is not understood here", act)
	}
}

func (c *request) property() error {
	act, index, _, name := c.next(), c.device(), c.next(), c.next()
	return do(c, act, name, c.err, acts[string]{
		"add": func(ns kernel.NS, name string) error { return c.k.AddAltName(ns, index, name) },
		"del": func(ns kernel.NS, name string) error { return c.k.RemoveAltName(ns, index, name) },
	})
}

// acts are what a command can do with an object, by its word.
type acts[T any] map[string]func(kernel.NS, T) error

// do does what a command says, unless that could not be read. What it says nothing of is refused.
func do[T any](c *request, act string, v T, err error, known acts[T]) error {
	f := known[act]
	switch {
	case err != nil:
		return err
	case f == nil:
		return fmt.Errorf("%q is not understood here; there are %s", act, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return f(c.ns, v)
}

func (c *request) addLink() error {
	s := kernel.LinkSpec{Name: c.next()}
	if s.Name == "name" {
		s.Name = c.next()
	}
	parent, parentNS := "", c.ns
	err := c.each(func(w string) bool {
		switch w {
		case "up":
			s.Up = true
		case "mtu":
			s.MTU = c.number()
		case "address":
			s.MAC = c.next()
		case "group":
			s.Group = uint32(c.number())
		case "alias":
			s.Alias = c.next()
		case "master":
			s.Master = c.device()
		case "link":
			parent = c.next()
		case "link-netns":
			parentNS = c.namespaceNamed(c.next())
		case "type":
			c.linkType(&s)
		default:
			return false
		}
		return true
	})
	if parent != "" && err == nil {
		index := c.indexOf(parentNS, parent)
		switch {
		case s.Macvlan != nil:
			s.Macvlan.Parent, s.Macvlan.ParentNS = index, parentNS
		case s.Ipvlan != nil:
			s.Ipvlan.Parent, s.Ipvlan.ParentNS = index, parentNS
		case s.Vlan != nil:
			s.Vlan.Parent, s.Vlan.ParentNS = index, parentNS
		}
		err = c.err
	}
	if err != nil {
		return err
	}
	_, err = c.k.AddLink(c.ns, s)
	return err
}

// namespaceNamed is that with a name; 1 is that of the first process, which is the own one.
func (c *request) namespaceNamed(name string) kernel.NS {
	if name == "1" {
		return c.k.Own()
	}
	ns, err := c.named(name)
	if err != nil {
		c.err = errors.Join(c.err, err)
	}
	return ns
}

// linkType reads the type of a link and its settings, which are the rest.
func (c *request) linkType(s *kernel.LinkSpec) {
	kind := c.next()
	take := func(string) bool { return false }
	switch kind {
	case "veth":
		s.Veth = &kernel.VethSpec{}
		take = func(w string) bool { return c.peer(s.Veth, w) }
	case "bridge":
		s.Bridge = &kernel.BridgeSpec{}
		take = func(w string) bool { return c.bridge(s.Bridge, w) }
	case "vxlan":
		s.Vxlan = &kernel.VxlanSpec{Learning: true}
		take = func(w string) bool { return c.vxlan(s.Vxlan, w) }
	case "macvlan":
		s.Macvlan = &kernel.MacvlanSpec{}
		take = func(w string) bool { s.Macvlan.Mode = c.next(); return w == "mode" }
	case "ipvlan":
		s.Ipvlan = &kernel.IpvlanSpec{}
		take = func(w string) bool { s.Ipvlan.Mode = c.next(); return w == "mode" }
	case "vlan":
		s.Vlan = &kernel.VlanSpec{}
		take = func(w string) bool {
			switch w {
			case "id":
				s.Vlan.ID = c.number()
			case "protocol":
				s.Vlan.Protocol = c.next()
			default:
				return false
			}
			return true
		}
	case "vrf":
		s.Vrf = &kernel.VrfSpec{}
		take = func(w string) bool { s.Vrf.Table = uint32(c.number()); return w == "table" }
	case "bond":
		s.Bond = &kernel.BondSpec{}
		take = func(w string) bool { return c.bond(s.Bond, w) }
	case "gre", "gretap", "ipip", "sit", "ip6gre", "ip6gretap", "ip6tnl":
		s.Tunnel = &kernel.TunnelSpec{Kind: kind, PMTUDiscovery: true}
		if slices.Contains(ipv6Kinds, kind) {
			s.Tunnel = &kernel.TunnelSpec{Kind: kind, TTL: hopLimit}
		}
		take = func(w string) bool { return c.tunnel(s.Tunnel, w) }
	case "geneve":
		s.Geneve = &kernel.GeneveSpec{}
		take = func(w string) bool { return c.geneve(s.Geneve, w) }
	default:
		s.Plain = kind
	}
	_ = c.each(take) // c.err has it
}

func (c *request) peer(v *kernel.VethSpec, w string) bool {
	switch w {
	case "peer":
	case "name":
		v.PeerName = c.next()
	case "netns":
		v.PeerNS = c.namespaceNamed(c.next())
	case "mtu":
		v.PeerMTU = c.number()
	case "address":
		v.PeerMAC = c.next()
	case "group":
		v.PeerGroup = uint32(c.number())
	default:
		return false
	}
	return true
}

func (c *request) bridge(b *kernel.BridgeSpec, w string) bool {
	on := func() *bool { return new(c.number() != 0) }
	switch w {
	case "stp_state":
		b.STP = on()
	case "ageing_time":
		b.AgeingSeconds = new(uint32(c.number() / 100))
	case "mcast_snooping":
		b.MulticastSnooping = on()
	case "mcast_querier":
		b.MulticastQuerier = on()
	case "vlan_filtering":
		b.VLANFiltering = on()
	case "vlan_default_pvid":
		b.DefaultPVID = new(uint16(c.number()))
	case "priority":
		b.Priority = new(uint16(c.number()))
	case "forward_delay":
		b.ForwardDelaySeconds = new(uint32(c.number() / 100))
	default:
		return false
	}
	return true
}

// port reads how a bridge is to treat its port.
func (c *request) port(p *kernel.PortSpec, w string) bool {
	if switches := map[string]**bool{
		"isolated": &p.Isolated, "hairpin": &p.Hairpin, "learning": &p.Learning, "flood": &p.UnicastFlood,
		"mcast_flood": &p.MulticastFlood, "bcast_flood": &p.BroadcastFlood, "guard": &p.BPDUGuard, "root_block": &p.RootBlock,
		"fastleave": &p.FastLeave, "neigh_suppress": &p.NeighSuppress,
	}; switches[w] != nil {
		*switches[w] = new(c.isOn())
		return true
	}
	switch w {
	case "cost":
		p.Cost = new(uint32(c.number()))
	case "priority":
		p.Priority = new(uint16(c.number()))
	default:
		return false
	}
	return true
}

func (c *request) isOn() bool {
	w := c.next()
	if w != "on" && w != "off" {
		c.fail("%q is neither on nor off", w)
	}
	return w == "on"
}

func (c *request) bridgePort() error {
	act, index, p := c.next(), c.device(), &kernel.PortSpec{}
	err := c.each(func(w string) bool { return c.port(p, w) })
	return do(c, act, p, err, acts[*kernel.PortSpec]{
		"set": func(ns kernel.NS, p *kernel.PortSpec) error { return c.k.SetLink(ns, index, kernel.LinkPatch{Port: p}) },
	})
}

func (c *request) bridgeVLAN() error {
	act, index, v := c.next(), c.device(), kernel.BridgeVLAN{}
	err := c.each(func(w string) bool {
		switch w {
		case "vid":
			v.ID = c.number()
		case "pvid":
			v.PVID = true
		case "untagged":
			v.Untagged = true
		case "self":
		default:
			return false
		}
		return true
	})
	var list []kernel.BridgeVLAN
	if err == nil {
		list, err = c.k.BridgeVLANs(c.ns, index)
	}
	list = slices.DeleteFunc(list, func(other kernel.BridgeVLAN) bool { return other.ID == v.ID })
	if v.PVID { // there is one
		for i := range list {
			list[i].PVID = false
		}
	}
	return do(c, act, v, err, acts[kernel.BridgeVLAN]{
		"add": func(ns kernel.NS, v kernel.BridgeVLAN) error { return c.k.SetBridgeVLANs(ns, index, append(list, v)) },
		"del": func(ns kernel.NS, v kernel.BridgeVLAN) error { return c.k.SetBridgeVLANs(ns, index, list) },
	})
}

func (c *request) offloads() error {
	index, on := c.device(), map[string]bool{}
	if err := c.each(func(w string) bool { on[w] = c.isOn(); return true }); err != nil {
		return err
	}
	return c.k.SetFeatures(c.ns, index, on)
}

func (c *request) vxlan(v *kernel.VxlanSpec, w string) bool {
	switch w {
	case "id":
		v.VNI = uint32(c.number())
	case "local":
		v.Local = c.addr()
	case "remote":
		v.Remote = c.addr()
	case "dev":
		v.Parent = c.device()
	case "dstport":
		v.Port = c.number()
	case "nolearning":
		v.Learning = false
	case "external": // ip has it learn nothing, unless told to
		v.External, v.Learning = true, false
	case "learning":
		v.Learning = true
	default:
		return false
	}
	return true
}

func (c *request) tuntap() error {
	if act := c.next(); act != "add" {
		return fmt.Errorf("%q is not understood here", act)
	}
	s := kernel.LinkSpec{Name: c.next(), Tuntap: &kernel.TuntapSpec{}}
	if s.Name == "dev" {
		s.Name = c.next()
	}
	if c.next() == "mode" {
		s.Tuntap.Tun = c.next() == "tun"
	}
	_, err := c.k.AddLink(c.ns, s)
	return err
}

func (c *request) setLink() error {
	index := c.device()
	var p kernel.LinkPatch
	err := c.each(func(w string) bool {
		switch w {
		case "up", "down":
			p.Up = new(w == "up")
		case "name":
			p.Name = new(c.next())
		case "alias":
			p.Alias = new(c.next())
		case "mtu":
			p.MTU = new(c.number())
		case "address":
			p.MAC = new(c.next())
		case "group":
			p.Group = new(uint32(c.number()))
		case "master":
			p.Master = new(c.device())
		case "nomaster":
			p.Master = new(0)
		case "type":
			c.retype(index, &p)
		default:
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	return c.k.SetLink(c.ns, index, p)
}

// retype reads other settings of a link's type. Those of tunnels are changed as a whole: what
// is not named is as it was.
func (c *request) retype(index int, p *kernel.LinkPatch) {
	l, err := c.k.LinkByIndex(c.ns, index)
	if err != nil {
		c.err = errors.Join(c.err, err)
	}
	var take func(string) bool
	switch kind := c.next(); kind {
	case "bridge_slave":
		p.Port = &kernel.PortSpec{}
		take = func(w string) bool { return c.port(p.Port, w) }
	case "bridge":
		p.Bridge = &kernel.BridgeSpec{}
		take = func(w string) bool { return c.bridge(p.Bridge, w) }
	case "bond":
		p.Bond = &kernel.BondSpec{}
		take = func(w string) bool { return c.bond(p.Bond, w) }
	case "geneve":
		p.Geneve = &kernel.GeneveSpec{}
		if l.Geneve != nil {
			*p.Geneve = *l.Geneve
		}
		take = func(w string) bool { return c.geneve(p.Geneve, w) }
	default:
		p.Tunnel = &kernel.TunnelSpec{Kind: kind}
		if l.Tunnel != nil {
			*p.Tunnel = *l.Tunnel
		}
		take = func(w string) bool { return c.tunnel(p.Tunnel, w) }
	}
	_ = c.each(take) // c.err has it
}

func (c *request) address() error {
	act := c.next()
	a := kernel.Address{Prefix: c.prefix()}
	err := c.each(func(w string) bool {
		switch w {
		case "dev":
			a.Index = c.device()
		case "label":
			a.Label = c.next()
		case "scope":
			a.Scope = int(scopes[c.next()])
		case "peer":
			peer := c.prefix()
			a.Peer, a.Prefix = peer.Addr(), netip.PrefixFrom(a.Prefix.Addr(), peer.Bits())
		case "broadcast":
			a.Broadcast = c.addr()
		case "valid_lft":
			a.Valid = uint32(c.number())
		case "preferred_lft":
			a.Preferred = uint32(c.number())
		case "proto":
			a.Protocol = uint8(c.number())
		case "nodad":
		default:
			return false
		}
		return true
	})
	return do(c, act, a, err, acts[kernel.Address]{"add": c.k.AddAddress, "change": c.k.ChangeAddress, "del": c.k.DeleteAddress})
}

func (c *request) route() error {
	act := c.next()
	r := kernel.Route{}
	if len(c.words) > 0 && slices.Contains(routeTypes, c.words[0]) {
		r.Type = c.next()
	}
	r.Dst = c.prefix()
	err := c.each(func(w string) bool {
		switch w {
		case "via":
			r.Gateway = c.gateway()
		case "dev":
			r.Index = c.device()
		case "table":
			r.Table = uint32(c.number())
		case "metric":
			r.Metric = uint32(c.number())
		case "proto":
			r.Protocol = uint8(c.number())
		case "scope":
			r.Scope = c.next()
		case "src":
			r.Src = c.addr()
		case "mtu":
			r.MTU = c.number()
		case "onlink":
			r.Onlink = true
		case "encap":
			r.Encap = c.encap()
		case "nhid":
			r.Nexthop = uint32(c.number())
		case "nexthop":
			r.NextHops = append(r.NextHops, kernel.NextHop{Weight: 1})
			c.way(&r)
		default:
			return false
		}
		return true
	})
	return do(c, act, r, err, acts[kernel.Route]{"add": c.k.AddRoute, "replace": c.k.ReplaceRoute, "del": c.k.DeleteRoute})
}

func (c *request) gateway() netip.Addr {
	if len(c.words) > 0 && c.words[0] == "inet6" {
		c.next()
	}
	return c.addr()
}

// way reads the words of the last way of a route.
func (c *request) way(r *kernel.Route) {
	h := &r.NextHops[len(r.NextHops)-1]
	for len(c.words) > 0 {
		switch c.words[0] {
		case "via":
			c.next()
			h.Gateway = c.gateway()
		case "dev":
			h.Index = c.device()
		case "weight":
			c.next()
			h.Weight = c.number()
		case "onlink":
			c.next()
			r.Onlink = true
		case "encap":
			c.next()
			h.Encap = c.encap()
		default:
			return
		}
	}
}

func (c *request) rule() error {
	act := c.next()
	r := kernel.Rule{IPv6: c.six, Action: "lookup"}
	err := c.each(func(w string) bool {
		switch w {
		case "pref", "priority":
			r.Priority = uint32(c.number())
		case "from":
			r.From = c.prefix()
		case "to":
			r.To = c.prefix()
		case "fwmark":
			mark, mask, _ := strings.Cut(c.next(), "/")
			m, _ := strconv.ParseUint(mark, 0, 32)
			r.Mark, r.Mask = uint32(m), ^uint32(0)
			if mask != "" {
				m, _ = strconv.ParseUint(mask, 0, 32)
				r.Mask = uint32(m)
			}
		case "iif":
			r.Iif = c.next()
		case "oif":
			r.Oif = c.next()
		case "table", "lookup":
			r.Table = uint32(c.number())
		case "type":
			r.Action = c.next()
		case "proto":
			r.Protocol = uint8(c.number())
		default:
			return false
		}
		return true
	})
	return do(c, act, r, err, acts[kernel.Rule]{"add": c.k.AddRule, "del": c.k.DeleteRule})
}

func (c *request) neighbor() error {
	act := c.next()
	r := kernel.Neighbor{Address: c.addr()}
	err := c.each(func(w string) bool {
		switch w {
		case "lladdr":
			r.MAC = c.next()
		case "dev":
			r.Index = c.device()
		case "proto":
			r.Protocol = uint8(c.number())
		case "nud":
			return c.next() == "permanent"
		default:
			return false
		}
		return true
	})
	return do(c, act, r, err, acts[kernel.Neighbor]{"add": c.k.AddNeighbor, "replace": c.k.ReplaceNeighbor, "del": c.k.DeleteNeighbor})
}

func (c *request) nexthop() error {
	act := c.next()
	h := kernel.Nexthop{IPv6: c.six}
	err := c.each(func(w string) bool {
		switch w {
		case "id":
			h.ID = uint32(c.number())
		case "via":
			h.Gateway = c.addr()
			h.IPv6 = h.Gateway.Is6()
		case "dev":
			h.Index = c.device()
		case "proto":
			h.Protocol = uint8(c.number())
		case "onlink":
			h.Onlink = true
		case "encap":
			h.Encap = c.encap()
		case "blackhole":
			h.Blackhole = true
		case "group":
			for m := range strings.SplitSeq(c.next(), "/") {
				id, weight, _ := strings.Cut(m, ",")
				n, err := strconv.ParseUint(id, 10, 32)
				if err != nil {
					c.fail("%q is no number", id)
				}
				w, err := strconv.Atoi(weight)
				if err != nil {
					w = 1
				}
				h.Group = append(h.Group, kernel.NexthopMember{ID: uint32(n), Weight: w})
			}
		default:
			return false
		}
		return true
	})
	return do(c, act, h, err, acts[kernel.Nexthop]{"add": c.k.AddNexthop, "replace": c.k.ReplaceNexthop,
		"del": func(ns kernel.NS, h kernel.Nexthop) error { return c.k.DeleteNexthop(ns, h.ID) }})
}

func (c *request) fdb() error {
	act := c.next()
	e := kernel.FDBEntry{MAC: c.next()}
	index, master := 0, false
	err := c.each(func(w string) bool {
		switch w {
		case "dev":
			index = c.device()
		case "master":
			master = true
		case "static", "self", "permanent":
		case "vlan":
			e.VLAN = c.number()
		case "dst":
			e.Address = c.addr()
		default:
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	e.Table = index
	if master {
		l, err := c.k.LinkByIndex(c.ns, index)
		if err != nil {
			return err
		}
		e.Table, e.Port = l.Master, index
	}
	return do(c, act, e, nil, acts[kernel.FDBEntry]{"add": c.k.AddFDBEntry, "append": c.k.AddFDBEntry, "del": c.k.DeleteFDBEntry})
}

func (c *request) sysctl() error {
	name, value, set := strings.Cut(c.next(), "=")
	if !set {
		return errors.New("want a setting as name=value")
	}
	return c.k.SetSysctl(c.ns, strings.ReplaceAll(name, ".", "/"), value)
}
