package kerneltest

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// AddLink makes a link in place.
func (k *Kernel) AddLink(ns kernel.NS, spec kernel.LinkSpec) (made kernel.Link, err error) {
	err = k.write(ns, "AddLink", fmt.Sprintf("add link %q", spec.Name), func(n *namespace) error {
		l, err := k.born(n, spec)
		if err != nil {
			return err
		}
		made = k.shown(l)
		return nil
	})
	return made, err
}

// AddLinks makes many, one after the other.
func (k *Kernel) AddLinks(ns kernel.NS, specs []kernel.LinkSpec) ([]kernel.Link, []error) {
	links, errs := make([]kernel.Link, len(specs)), make([]error, len(specs))
	for i, spec := range specs {
		links[i], errs[i] = k.AddLink(ns, spec)
	}
	return links, errs
}

func (k *Kernel) born(n *namespace, spec kernel.LinkSpec) (*link, error) {
	if err := checkName(spec.Name); err != nil {
		return nil, err
	}
	if err := spec.OneType(); err != nil {
		return nil, err
	}
	if n.names[spec.Name] != nil {
		return nil, refused(syscall.EEXIST)
	}
	l := &link{ns: n}
	k.load(spec)
	if err := k.typed(l, spec); err != nil {
		return nil, err
	}
	if n.names[spec.Name] != nil { // what came with the type
		return nil, refused(syscall.EEXIST)
	}
	if err := notForAll(spec.Name); err != nil {
		return nil, err
	}
	if err := basics(l, spec.Name, spec.MTU, spec.MAC, spec.Group); err != nil {
		return nil, err
	}
	if spec.Veth != nil {
		if err := k.bornPeer(l, spec.Veth); err != nil {
			return nil, err
		}
	}
	k.insert(l)
	if l.parent != nil && spec.Veth == nil {
		l.parent.above = append(l.parent.above, l)
	}
	k.tellLink(l, false)
	if spec.Veth != nil {
		l.parent.parent = l // until both are there, they are not connected
		k.tellLink(l, false)
	}
	if spec.Master != 0 {
		if err := k.enslave(l, spec.Master); err != nil {
			k.unregister(l)
			return nil, err
		}
	}
	k.accept(l, spec.Accepts)
	if spec.Veth != nil {
		k.accept(l.parent, spec.Veth.PeerAccepts)
	}
	if spec.Up {
		if err := k.setUp(l, true); err != nil {
			k.unregister(l)
			return nil, err
		}
	}
	k.mark(l, spec.Alias, false)
	if v := spec.Veth; v != nil {
		k.mark(l.parent, v.PeerAlias, v.PeerUp)
	}
	return l, nil
}

// mark gives a link what it cannot be born with.
func (k *Kernel) mark(l *link, alias string, up bool) {
	if alias == "" && !up {
		return
	}
	k.writes++
	if alias != "" {
		l.Alias = alias
	}
	if up && !l.Up {
		_ = k.setUp(l, true) // nothing refuses an end of a veth
	} else if l.Up {
		k.tellLink(l, false)
	}
}

// bornPeer makes the other end of a veth, which is there first.
func (k *Kernel) bornPeer(l *link, v *kernel.VethSpec) error {
	at := l.ns
	if v.PeerNS != 0 {
		if !k.isOpen(v.PeerNS) {
			return fmt.Errorf("namespace of the peer: %w (or was never opened): %d", kernel.ErrNoNamespace, v.PeerNS)
		}
		at = k.all[v.PeerNS]
	}
	if err := checkName(v.PeerName); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	if at.names[v.PeerName] != nil || at == l.ns && v.PeerName == l.Name {
		return fmt.Errorf("name %q of the peer, in its namespace: %w", v.PeerName, refused(syscall.EEXIST))
	}
	p := &link{ns: at, Link: kernel.Link{Type: "veth", MTU: 1500, MAC: k.newMAC()}}
	if err := basics(p, v.PeerName, v.PeerMTU, v.PeerMAC, v.PeerGroup); err != nil {
		return err
	}
	k.insert(p)
	k.tellLink(p, false)
	l.parent = p
	return nil
}

// newMAC is one that no other link has, and that looks the same in every run.
func (k *Kernel) newMAC() string {
	k.lastMAC++
	return fmt.Sprintf("02:00:5e:%02x:%02x:%02x", byte(k.lastMAC>>16), byte(k.lastMAC>>8), byte(k.lastMAC))
}

// basics are what links of all types are born with.
func basics(l *link, name string, mtu int, mac string, group uint32) error {
	l.Name, l.Group = name, group
	if mtu != 0 {
		if l.Tunnel != nil {
			mtu = min(mtu, l.maxMTU())
		}
		if err := l.checkMTU(mtu); err != nil {
			return err
		}
		l.MTU, l.givenMTU = mtu, true
	}
	if mac != "" {
		hw, err := net.ParseMAC(mac)
		if err != nil {
			return err
		}
		if hw.String() == noMAC || hw[0]&1 != 0 { // is_valid_ether_addr of the kernel
			return refused(syscall.EADDRNOTAVAIL)
		}
		l.MAC, l.givenMAC = hw.String(), true
	}
	return nil
}

func (l *link) checkMTU(mtu int) error {
	if mtu < minMTU || mtu > l.maxMTU() {
		return syscall.EINVAL
	}
	if (l.Macvlan != nil || l.Vlan != nil) && l.parent != nil && mtu > l.parent.MTU {
		if l.Vlan != nil {
			return syscall.ERANGE
		}
		return syscall.EINVAL
	}
	return nil
}

func (l *link) maxMTU() int {
	switch {
	case l.Name == loopback, l.wireGuard != nil:
		return math.MaxInt32
	case l.Tunnel != nil && slices.Contains([]string{"gre", "gretap", "ip6gre", "ip6gretap", "ipip"}, l.Tunnel.Kind):
		return maxMTU - overhead(l.Tunnel)
	}
	return maxMTU
}

// typed gives a link what its type says.
func (k *Kernel) typed(l *link, spec kernel.LinkSpec) error {
	l.MTU, l.MAC = 1500, k.newMAC()
	switch {
	case spec.Veth != nil:
		l.Type = "veth"
	case spec.Bridge != nil:
		l.Type, l.Bridge = "bridge", bridgeDefaults()
		changeBridge(l.Bridge, spec.Bridge)
		l.vlans = firstVLANs(l.Bridge)
	case spec.Vxlan != nil:
		return k.typedVxlan(l, *spec.Vxlan)
	case spec.Macvlan != nil:
		mode := cmp.Or(spec.Macvlan.Mode, "vepa")
		if !slices.Contains([]string{"private", "vepa", "bridge", "passthru", "source"}, mode) {
			return fmt.Errorf("no macvlan mode %q: %w", mode, syscall.EINVAL)
		}
		l.Type, l.Macvlan = "macvlan", &kernel.MacvlanSpec{Mode: mode}
		if err := k.below(l, spec.Macvlan.ParentNS, spec.Macvlan.Parent); err != nil {
			return err
		}
		if l.parent.Name == loopback {
			return syscall.EINVAL
		}
		if l.parent.receives() && !slices.ContainsFunc(l.parent.above, func(child *link) bool { return child.Macvlan != nil }) {
			return syscall.EBUSY
		}
	case spec.Ipvlan != nil:
		mode := cmp.Or(spec.Ipvlan.Mode, "l3")
		if !slices.Contains([]string{"l2", "l3", "l3s"}, mode) {
			return fmt.Errorf("no ipvlan mode %q: %w", mode, syscall.EINVAL)
		}
		l.Type, l.Ipvlan = "ipvlan", &kernel.IpvlanSpec{Mode: mode}
		if err := k.below(l, spec.Ipvlan.ParentNS, spec.Ipvlan.Parent); err != nil {
			return err
		}
		l.MAC = l.parent.MAC
		if l.parent.receives() && !slices.ContainsFunc(l.parent.above, func(child *link) bool { return child.Ipvlan != nil }) {
			return syscall.EBUSY
		}
	case spec.Vlan != nil:
		l.Type, l.Vlan = "vlan", &kernel.VlanSpec{ID: spec.Vlan.ID, Protocol: cmp.Or(spec.Vlan.Protocol, "802.1q")}
		if err := k.below(l, spec.Vlan.ParentNS, spec.Vlan.Parent); err != nil {
			return err
		}
		l.MAC = l.parent.MAC
		if l.Vlan.ID >= maxVLAN {
			return syscall.ERANGE
		}
		for _, other := range l.parent.above {
			if other.Vlan != nil && *other.Vlan == *l.Vlan {
				return refused(syscall.EEXIST)
			}
		}
	case spec.Vrf != nil:
		l.Type, l.Vrf, l.MTU = "vrf", &kernel.VrfSpec{Table: spec.Vrf.Table}, maxMTU
		if spec.Vrf.Table == 0 {
			return syscall.EINVAL
		}
	case spec.Tuntap != nil:
		t := *spec.Tuntap
		l.Type, l.Tuntap = "tun", &t
		if t.Tun {
			l.MAC = ""
		}
	case spec.Bond != nil:
		l.Type, l.Bond = "bond", bondDefaults()
		return l.changeBond(spec.Bond)
	case spec.Tunnel != nil:
		return k.typedTunnel(l, *spec.Tunnel)
	case spec.Geneve != nil:
		return k.typedGeneve(l, *spec.Geneve)
	case spec.Plain == "dummy", spec.Plain == "ifb":
		l.Type = spec.Plain
	case spec.Plain == "wireguard":
		l.Type, l.wireGuard, l.MTU, l.MAC = spec.Plain, &kernel.WireGuard{}, 1420, ""
	default:
		return fmt.Errorf("%w; a kernel in memory has no links of type %q", refused(syscall.EOPNOTSUPP), spec.Plain)
	}
	return nil
}

func (k *Kernel) typedVxlan(l *link, s kernel.VxlanSpec) error {
	at := cmp.Or(s.ParentNS, l.ns.id)
	if !k.isOpen(at) {
		return fmt.Errorf("namespace of the parent: %w (or was never opened): %d", kernel.ErrNoNamespace, at)
	}
	s.Port, s.ParentNS = cmp.Or(s.Port, 8472), at
	for _, n := range k.all {
		for _, other := range n.links {
			if other.Vxlan != nil && other.Vxlan.VNI == s.VNI && other.Vxlan.Port == s.Port && other.Vxlan.ParentNS == at {
				return refused(syscall.EEXIST)
			}
		}
	}
	l.Type, l.Vxlan = "vxlan", &s
	if s.Remote.IsValid() { // what it does with all frames that it knows no place for
		l.fdb = append(l.fdb, kernel.FDBEntry{MAC: kernel.ZeroMAC, Address: s.Remote, Special: s.Remote.IsMulticast()})
	}
	if s.Parent == 0 {
		return nil
	}
	if err := k.below(l, at, s.Parent); err != nil {
		return err
	}
	l.MTU = l.parent.MTU - 50
	return nil
}

// below finds the link under another, in the namespace where it is or in that of the link.
func (k *Kernel) below(l *link, ns kernel.NS, index int) error {
	if ns == 0 {
		ns = l.ns.id
	}
	if !k.isOpen(ns) {
		return fmt.Errorf("namespace of the parent: %w (or was never opened): %d", kernel.ErrNoNamespace, ns)
	}
	p := k.all[ns].links[index]
	if p == nil {
		return refused(syscall.ENODEV)
	}
	l.parent, l.MTU = p, p.MTU
	return nil
}

func checkName(name string) error {
	if strings.Contains(name, "%") {
		return fmt.Errorf("a link's name has no %%: %q: %w", name, syscall.EINVAL)
	}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a link's name has 1 to %d bytes, %q has %d: %w", maxName, name, len(name), syscall.EINVAL)
	}
	if name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n") {
		return syscall.EINVAL
	}
	return nil
}

// notForAll refuses the names that settings have for all links.
func notForAll(name string) error {
	if name == "all" || name == "default" {
		return syscall.EINVAL
	}
	return nil
}
