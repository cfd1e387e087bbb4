package kerneltest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

const (
	maxName  = 15
	minMTU   = 68
	maxMTU   = 65535
	minMTU6  = 1280 // below it there is no IPv6
	maxVLAN  = 4095
	loopback = "lo"
)

// link is a network device.
type link struct {
	ns *namespace
	kernel.Link
	master *link
	parent *link // the other end of a veth, or what is below
	above  []*link
	ports  []*link
	// running: it is up and has a carrier. ready: IPv6 has come to it since it went up.
	running, ready bool
	// hadPorts: without any a bridge has no carrier since it had some.
	hadPorts bool
	// givenMAC and givenMTU do not follow those of the ports, or of what is below.
	givenMAC, givenMTU bool
	// freeMTU is what the port of a bond has again when it is none any more.
	freeMTU int
	// fallback: it is in every namespace, and cannot be deleted.
	fallback  bool
	wireGuard *kernel.WireGuard

	addresses []kernel.Address // in the order of the kernel: of each family primary before secondary
	neighbors map[netip.Addr]kernel.Neighbor
	fdb       []kernel.FDBEntry
	vlans     []kernel.BridgeVLAN
	features  map[string]bool
	traffic   traffic
}

func (k *Kernel) addLoopback(n *namespace) {
	l := &link{ns: n, Link: kernel.Link{Name: loopback, Type: "device", MTU: 65536, MAC: "00:00:00:00:00:00"}}
	k.insert(l)
}

// insert gives a link its number and its place.
func (k *Kernel) insert(l *link) {
	n := l.ns
	n.lastIndex++
	l.NS, l.Index = n.id, n.lastIndex
	l.neighbors, l.features = map[netip.Addr]kernel.Neighbor{}, map[string]bool{}
	n.links[l.Index], n.names[l.Name] = l, l
}

// Links are all links of a namespace in the order of their indexes.
func (k *Kernel) Links(ns kernel.NS) (list []kernel.Link, err error) {
	err = k.in(ns, "Links", "list links", func(n *namespace) error {
		for _, l := range n.sorted() {
			list = append(list, k.shown(l))
		}
		return nil
	})
	return list, err
}

// Link is the link with a name, which may also be one of its other names.
func (k *Kernel) Link(ns kernel.NS, name string) (found kernel.Link, err error) {
	err = k.in(ns, "Link", fmt.Sprintf("find link %q", name), func(n *namespace) error {
		if err := checkName(name); err != nil {
			return err
		}
		l := n.names[name]
		if l == nil {
			return refused(syscall.ENODEV)
		}
		found = k.shown(l)
		return nil
	})
	return found, err
}

// LinkByIndex is the link with an index.
func (k *Kernel) LinkByIndex(ns kernel.NS, index int) (found kernel.Link, err error) {
	err = k.in(ns, "LinkByIndex", fmt.Sprintf("find link %d", index), func(n *namespace) error {
		l, err := n.link(index)
		if err == nil {
			found = k.shown(l)
		}
		return err
	})
	return found, err
}

// Running reports whether a link is up and has a carrier.
func (k *Kernel) Running(at kernel.LinkRef) (running bool, err error) {
	err = k.in(at.NS, "Running", fmt.Sprintf("find link %d", at.Index), func(n *namespace) error {
		l, err := n.link(at.Index)
		running = err == nil && l.running
		return err
	})
	return running, err
}

func (n *namespace) link(index int) (*link, error) {
	if index <= 0 {
		return nil, fmt.Errorf("%w: %d is no index of a link", kernel.ErrNotExist, index)
	}
	if l := n.links[index]; l != nil {
		return l, nil
	}
	return nil, refused(syscall.ENODEV)
}

// shown is a link as the port tells it.
func (k *Kernel) shown(l *link) kernel.Link {
	s := l.Link
	s.AltNames = slices.Clone(s.AltNames)
	s.Master = 0
	if l.master != nil {
		s.Master = l.master.Index
		if l.Port != nil {
			port := *l.Port
			s.Port = &port
		}
	}
	if l.parent != nil {
		s.Parent = l.parent.Index
		if k.isOpen(l.parent.ns.id) {
			s.ParentNS = l.parent.ns.id
		}
	}
	switch {
	case s.Bridge != nil:
		b := *s.Bridge
		s.Bridge = &b
	case s.Macvlan != nil:
		s.Macvlan = &kernel.MacvlanSpec{Mode: s.Macvlan.Mode, Parent: s.Parent, ParentNS: s.ParentNS}
	case s.Ipvlan != nil:
		s.Ipvlan = &kernel.IpvlanSpec{Mode: s.Ipvlan.Mode, Parent: s.Parent, ParentNS: s.ParentNS}
	case s.Vlan != nil:
		s.Vlan = &kernel.VlanSpec{ID: s.Vlan.ID, Protocol: s.Vlan.Protocol, Parent: s.Parent, ParentNS: s.ParentNS}
	case s.Vxlan != nil:
		v := *s.Vxlan
		v.Parent = s.Parent
		s.Vxlan = &v
	case s.Bond != nil:
		b := *s.Bond
		b.ARPTargets = new(slices.Clone(*b.ARPTargets))
		s.Bond = &b
	case s.Tunnel != nil:
		t := *s.Tunnel
		s.Tunnel = &t
		if t.Parent != 0 {
			s.Parent, s.ParentNS = t.Parent, l.ns.id
		}
	case s.Geneve != nil:
		g := *s.Geneve
		s.Geneve = &g
	}
	return s
}

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

func (k *Kernel) born(n *namespace, spec kernel.LinkSpec) (*link, error) {
	if err := checkName(spec.Name); err != nil {
		return nil, err
	}
	if err := oneType(spec); err != nil {
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

func oneType(spec kernel.LinkSpec) error {
	types := 0
	for _, given := range []bool{
		spec.Veth != nil, spec.Bridge != nil, spec.Vxlan != nil, spec.Macvlan != nil,
		spec.Ipvlan != nil, spec.Tuntap != nil, spec.Vlan != nil, spec.Vrf != nil, spec.Bond != nil,
		spec.Tunnel != nil, spec.Geneve != nil, spec.Plain != "",
	} {
		if given {
			types++
		}
	}
	if types != 1 {
		return fmt.Errorf("exactly one type is to be given, not %d: %w", types, syscall.EINVAL)
	}
	return nil
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

// SetLink changes what the patch names, in the order of the port.
func (k *Kernel) SetLink(ns kernel.NS, index int, p kernel.LinkPatch) error {
	return k.write(ns, "SetLink", fmt.Sprintf("change link %d", index), func(n *namespace) error {
		l, err := n.link(index)
		if err != nil {
			return err
		}
		return k.change(l, p)
	})
}

func (k *Kernel) change(l *link, p kernel.LinkPatch) error {
	if err := k.rename(l, p); err != nil {
		return err
	}
	if p.MAC != nil {
		hw, err := net.ParseMAC(*p.MAC)
		if err != nil {
			return err
		}
		if l.Name == loopback || l.MAC == "" {
			return refused(syscall.EOPNOTSUPP)
		}
		if l.master == nil || l.master.Bond == nil { // else it is for that time alone
			l.givenMAC = true
			k.setMAC(l, hw.String())
			k.followPorts(l.master)
		}
	}
	if p.MTU != nil && *p.MTU != l.MTU {
		if err := l.checkMTU(*p.MTU); err != nil {
			return err
		}
		l.givenMTU = true
		if l.Bond != nil {
			for _, port := range l.ports {
				k.setMTU(port, *p.MTU)
			}
		}
		k.setMTU(l, *p.MTU)
		k.followPorts(l.master)
	}
	if p.Up != nil && *p.Up != l.Up {
		if err := k.setUp(l, *p.Up); err != nil {
			return err
		}
	}
	if p.Master != nil {
		if err := k.enslave(l, *p.Master); err != nil {
			return err
		}
	}
	if p.Port != nil && *p.Port != (kernel.PortSpec{}) {
		if l.master == nil || l.master.Bridge == nil {
			return syscall.EINVAL
		}
		changePort(l.Port, p.Port)
		k.tellLink(l, false)
	}
	return k.retype(l, p)
}

// retype changes the settings of a link's type.
func (k *Kernel) retype(l *link, p kernel.LinkPatch) error {
	switch {
	case p.Bridge != nil && *p.Bridge != (kernel.BridgeSpec{}):
		if l.Bridge == nil {
			return refused(syscall.EOPNOTSUPP)
		}
		changeBridge(l.Bridge, p.Bridge)
	case p.Bond != nil && *p.Bond != (kernel.BondSpec{}):
		if l.Bond == nil {
			return refused(syscall.EOPNOTSUPP)
		}
		if err := l.changeBond(p.Bond); err != nil {
			return err
		}
		k.refresh(l)
	case p.Tunnel != nil:
		if err := k.changeTunnel(l, *p.Tunnel); err != nil {
			return err
		}
	case p.Geneve != nil:
		if err := k.changeGeneve(l, *p.Geneve); err != nil {
			return err
		}
	default:
		return nil
	}
	k.tellLink(l, false)
	return nil
}

// setMTU gives a link another MTU, to which what is on it has to keep. One that is too small for
// IPv6 ends it there.
func (k *Kernel) setMTU(l *link, mtu int) {
	if mtu == l.MTU {
		return
	}
	l.MTU = mtu
	k.tellLink(l, false)
	for _, child := range l.above {
		if child.Vxlan == nil && (child.MTU > mtu || child.Ipvlan != nil) {
			k.setMTU(child, mtu)
		}
	}
	switch {
	case mtu < minMTU6:
		k.leaveIPv6(l)
	case l.running:
		k.comeToIPv6(l)
	}
}

// setMAC gives a link another hardware address, and with that no neighbors any more. A VLAN that
// is up has it too.
func (k *Kernel) setMAC(l *link, mac string) {
	if mac == l.MAC {
		return
	}
	l.MAC = mac
	k.dropNeighbors(l, netip.Addr.IsValid)
	k.tellLink(l, false)
	for _, child := range l.above {
		if child.Ipvlan != nil || child.Vlan != nil && child.Up && !child.givenMAC {
			k.setMAC(child, mac)
			k.followPorts(child.master)
		}
	}
}

// rename changes who the link is. Of a new alias or group nothing is told while it is down.
func (k *Kernel) rename(l *link, p kernel.LinkPatch) error {
	renamed := p.Name != nil && *p.Name != l.Name
	if renamed {
		if err := checkName(*p.Name); err != nil {
			return err
		}
		if l.ns.names[*p.Name] != nil {
			return refused(syscall.EEXIST)
		}
		if err := notForAll(*p.Name); err != nil {
			return err
		}
		delete(l.ns.names, l.Name)
		for i, a := range l.addresses {
			if a.Label == l.Name {
				l.addresses[i].Label = *p.Name
			}
		}
		l.Name = *p.Name
		l.ns.names[l.Name] = l
	}
	if p.Group != nil {
		l.Group = *p.Group
	}
	if p.Alias != nil {
		if len(*p.Alias) > 255 {
			return syscall.EINVAL
		}
		l.Alias = *p.Alias
	}
	if renamed || l.Up && (p.Group != nil || p.Alias != nil) {
		k.tellLink(l, false)
	}
	return nil
}

// AddAltName gives a link one more name.
func (k *Kernel) AddAltName(ns kernel.NS, index int, name string) error {
	return k.write(ns, "AddAltName", fmt.Sprintf("add alternative name %q of link %d", name, index), func(n *namespace) error {
		l, err := n.link(index)
		switch {
		case err != nil:
			return err
		case name == "" || len(name) > 127:
			return syscall.EINVAL
		case n.names[name] != nil:
			return refused(syscall.EEXIST)
		}
		n.names[name] = l
		l.AltNames = append(l.AltNames, name)
		k.tellLink(l, false)
		return nil
	})
}

// RemoveAltName takes an alternative name from a link.
func (k *Kernel) RemoveAltName(ns kernel.NS, index int, name string) error {
	return k.write(ns, "RemoveAltName", fmt.Sprintf("remove alternative name %q of link %d", name, index), func(n *namespace) error {
		l, err := n.link(index)
		switch {
		case err != nil:
			return err
		case !slices.Contains(l.AltNames, name):
			return refused(syscall.ENOENT)
		}
		delete(n.names, name)
		l.AltNames = slices.DeleteFunc(l.AltNames, func(a string) bool { return a == name })
		k.tellLink(l, false)
		return nil
	})
}

// DeleteLink removes one link.
func (k *Kernel) DeleteLink(ns kernel.NS, index int) error {
	return k.write(ns, "DeleteLink", fmt.Sprintf("delete link %d", index), func(n *namespace) error {
		l, err := n.link(index)
		if err == nil && l.Name == loopback {
			err = refused(syscall.EOPNOTSUPP)
		}
		if err == nil && !l.fallback {
			k.unregister(l)
		}
		return err
	})
}

// DeleteLinks removes many; those that are gone are no error.
func (k *Kernel) DeleteLinks(ns kernel.NS, indexes []int) error {
	return k.write(ns, "DeleteLinks", fmt.Sprintf("delete %d links", len(indexes)), func(n *namespace) error {
		var errs []error
		for _, index := range indexes {
			l := n.links[index]
			switch {
			case index <= 0:
				return fmt.Errorf("%w: %d is no index of a link", kernel.ErrNotExist, index)
			case l == nil, l.fallback:
			case l.Name == loopback:
				errs = append(errs, fmt.Errorf("link %d: %w", index, refused(syscall.EOPNOTSUPP)))
			default:
				k.unregister(l)
			}
		}
		return errors.Join(errs...)
	})
}

// unregister removes a link with all that stands on it, and the other end of a veth. All of
// them go down first.
func (k *Kernel) unregister(l *link) {
	if l.ns.links[l.Index] != l {
		return // it went with another
	}
	all := l.doomed(nil)
	for _, d := range all {
		for _, p := range slices.Clone(d.ports) {
			k.release(p)
		}
		k.release(d)
		if d.Up {
			k.goDown(d)
		}
	}
	for _, d := range all {
		k.dropAddresses(d)
		k.dropRoutes(d, true, netip.Addr.IsValid)
		delete(d.ns.links, d.Index)
		for _, name := range append(d.AltNames, d.Name) {
			delete(d.ns.names, name)
		}
		d.ns.forgetSettings(d.Name)
		k.tellLink(d, true)
		if d.parent != nil {
			d.parent.above = slices.DeleteFunc(d.parent.above, func(other *link) bool { return other == d })
		}
	}
}

// doomed are a link and those that go with it, which come after those that do already.
func (l *link) doomed(all []*link) []*link {
	if slices.Contains(all, l) {
		return all
	}
	all = append(all, l)
	if l.Type == "veth" && l.parent != nil {
		all = l.parent.doomed(all)
	}
	for _, child := range l.above {
		all = child.doomed(all)
	}
	return all
}

// setUp sets a link up or down.
func (k *Kernel) setUp(l *link, up bool) error {
	switch {
	case !up:
		k.goDown(l)
		return nil
	case l.Vlan != nil && !l.parent.Up:
		return refused(syscall.ENETDOWN)
	case l.Tunnel != nil && l.MAC == noMAC, l.Type == "erspan":
		return refused(syscall.EADDRNOTAVAIL)
	case l.wireGuard != nil:
		if err := l.listen(); err != nil {
			return err
		}
	}
	l.Up = true
	if l.Vlan != nil && !l.givenMAC {
		k.setMAC(l, l.parent.MAC)
		k.followPorts(l.master)
	}
	k.tellLink(l, false)
	k.comeToIPv4(l)
	k.returnToIPv6(l)
	k.refreshAround(l)
	for _, child := range l.above {
		if child.Vlan != nil && !child.Up {
			_ = k.setUp(child, true) // that on which it is is up
		}
	}
	return nil
}

// goDown sets a link down: what needs it up goes.
func (k *Kernel) goDown(l *link) {
	l.Up = false
	for _, child := range l.above {
		if child.Vlan != nil && child.Up {
			k.goDown(child)
		}
	}
	ran := l.running
	l.running = false
	k.tellLink(l, false)
	k.dropNeighbors(l, netip.Addr.IsValid)
	k.dropNexthops(l)
	k.dropRoutes(l, false, netip.Addr.Is4)
	k.leaveIPv6(l)
	k.refreshAround(l)
	if ran {
		k.refreshUpon(l)
	}
}

// refreshAround looks at the carriers that depend on whether a link is up.
func (k *Kernel) refreshAround(l *link) {
	k.refresh(l)
	if l.Type == "veth" && l.parent != nil {
		k.refresh(l.parent)
	}
}

// carrier reports whether a link has one, if it is up.
func (l *link) carrier() bool {
	switch l.Type {
	case "veth":
		return l.parent != nil && l.parent.Up
	case "bridge":
		return len(l.ports) == 0 && !l.hadPorts || slices.ContainsFunc(l.ports, func(p *link) bool { return p.running })
	case "macvlan", "ipvlan", "vlan":
		return l.parent.carrier() && (l.parent.Up || l.parent.Type != "veth") // that of a veth ends as it goes down
	case "tun":
		return false // nobody has it open
	case "bond":
		return l.bondCarries()
	}
	return true
}

// refresh looks whether a link runs, and tells it to those that depend on that.
func (k *Kernel) refresh(l *link) {
	running := l.Up && l.carrier()
	if running == l.running {
		if running {
			k.comeToIPv6(l)
		}
		return
	}
	l.running = running
	if l.Up {
		k.tellLink(l, false)
	}
	if running {
		k.comeToIPv6(l)
	} else {
		k.dropNexthops(l)
	}
	k.refreshUpon(l)
}

// refreshUpon looks at the carriers of what a link is the port of, and of what stands on it.
func (k *Kernel) refreshUpon(l *link) {
	if l.master != nil {
		k.refresh(l.master)
	}
	for _, child := range l.above {
		k.refresh(child)
	}
}
