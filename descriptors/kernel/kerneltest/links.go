package kerneltest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
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
	// lostLocals are the addresses whose route in table local somebody removed.
	lostLocals map[netip.Addr]bool
	neighbors  map[netip.Addr]kernel.Neighbor
	fdb        []kernel.FDBEntry
	vlans      []kernel.BridgeVLAN
	features   map[string]bool
	traffic    traffic
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
	for i := range l.fdb {
		l.fdb[i].Table = l.Index
	}
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

// LinksByName reads many, one after the other.
func (k *Kernel) LinksByName(ns kernel.NS, names []string) ([]kernel.Link, []error) {
	links, errs := make([]kernel.Link, len(names)), make([]error, len(names))
	for i, name := range names {
		links[i], errs[i] = k.Link(ns, name)
	}
	return links, errs
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

// Carrier implements [kernel.Links].
func (k *Kernel) Carrier(at kernel.LinkRef) (bool, error) { return k.Running(at) }

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
	s.Accepts = l.accepts()
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
func (k *Kernel) DeleteLinks(ns kernel.NS, links []kernel.Link) error {
	return k.write(ns, "DeleteLinks", fmt.Sprintf("delete %d links", len(links)), func(n *namespace) error {
		var errs []error
		for _, doomed := range links {
			index := doomed.Index
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
