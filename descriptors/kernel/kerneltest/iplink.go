package kerneltest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

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
