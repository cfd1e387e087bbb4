package kerneltest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

func bridgeDefaults() *kernel.BridgeSpec {
	return &kernel.BridgeSpec{
		STP: new(false), AgeingSeconds: new(uint32(300)), MulticastSnooping: new(true), MulticastQuerier: new(false),
		VLANFiltering: new(false), DefaultPVID: new(uint16(1)), Priority: new(uint16(32768)), ForwardDelaySeconds: new(uint32(15)),
	}
}

// changeBridge gives a bridge the settings that are named.
func changeBridge(b, to *kernel.BridgeSpec) {
	*b = kernel.BridgeSpec{
		STP: cmp.Or(to.STP, b.STP), AgeingSeconds: cmp.Or(to.AgeingSeconds, b.AgeingSeconds),
		MulticastSnooping: cmp.Or(to.MulticastSnooping, b.MulticastSnooping), MulticastQuerier: cmp.Or(to.MulticastQuerier, b.MulticastQuerier),
		VLANFiltering: cmp.Or(to.VLANFiltering, b.VLANFiltering), DefaultPVID: cmp.Or(to.DefaultPVID, b.DefaultPVID),
		Priority: cmp.Or(to.Priority, b.Priority), ForwardDelaySeconds: cmp.Or(to.ForwardDelaySeconds, b.ForwardDelaySeconds),
	}
}

func portDefaults(l *link) *kernel.PortSpec {
	cost := uint32(100)
	if l.Type == "veth" {
		cost = 2
	}
	return &kernel.PortSpec{
		Cost: &cost, Priority: new(uint16(32)), Isolated: new(false), Hairpin: new(false), Learning: new(true),
		UnicastFlood: new(true), MulticastFlood: new(true), BroadcastFlood: new(true), BPDUGuard: new(false),
		RootBlock: new(false), FastLeave: new(false), NeighSuppress: new(false),
	}
}

// changePort gives a port the settings that are named.
func changePort(p, to *kernel.PortSpec) {
	*p = kernel.PortSpec{
		Cost: cmp.Or(to.Cost, p.Cost), Priority: cmp.Or(to.Priority, p.Priority), Isolated: cmp.Or(to.Isolated, p.Isolated),
		Hairpin: cmp.Or(to.Hairpin, p.Hairpin), Learning: cmp.Or(to.Learning, p.Learning), UnicastFlood: cmp.Or(to.UnicastFlood, p.UnicastFlood),
		MulticastFlood: cmp.Or(to.MulticastFlood, p.MulticastFlood), BroadcastFlood: cmp.Or(to.BroadcastFlood, p.BroadcastFlood),
		BPDUGuard: cmp.Or(to.BPDUGuard, p.BPDUGuard), RootBlock: cmp.Or(to.RootBlock, p.RootBlock),
		FastLeave: cmp.Or(to.FastLeave, p.FastLeave), NeighSuppress: cmp.Or(to.NeighSuppress, p.NeighSuppress),
	}
}

// enslave makes a link the port of another, or of none with 0.
func (k *Kernel) enslave(l *link, master int) error {
	if l.master != nil && l.master.Index == master {
		return nil
	}
	k.release(l) // also if the other one does not take it
	if master == 0 {
		return nil
	}
	m := l.ns.links[master]
	switch {
	case m == nil:
		return syscall.EINVAL
	case m.Bond != nil:
		return k.joinBond(l, m)
	case m.Bridge == nil && m.Vrf == nil:
		return refused(syscall.EOPNOTSUPP)
	case l.MAC == noMAC:
		return syscall.EINVAL
	case l.Bridge != nil && m.Bridge != nil:
		return syscall.ELOOP
	case l.Name == loopback, m == l, l.MAC == "" && m.Bridge != nil:
		return syscall.EINVAL
	case m.isBelow(l), m.Bridge != nil && l.receives():
		return syscall.EBUSY
	}
	if m.Vrf != nil {
		defer k.moveTable(l)()
	}
	l.master = m
	m.ports = append(m.ports, l)
	if m.Bridge != nil {
		l.Port, m.hadPorts = portDefaults(l), true
		l.vlans = firstVLANs(m.Bridge)
	}
	k.tellLink(l, false)
	k.followPorts(m)
	k.refresh(m)
	return nil
}

// release takes a link out of its master.
func (k *Kernel) release(l *link) {
	m := l.master
	if m == nil {
		return
	}
	if m.Vrf != nil {
		defer k.moveTable(l)()
	}
	m.ports = slices.DeleteFunc(m.ports, func(p *link) bool { return p == l })
	if m.Bond != nil {
		k.leaveBond(l, m)
		return
	}
	l.master, l.Port, l.vlans = nil, nil, nil
	m.fdb = slices.DeleteFunc(m.fdb, func(e kernel.FDBEntry) bool { return e.Port == l.Index })
	k.tellLink(l, false)
	k.followPorts(m)
	k.refresh(m)
}

// isBelow reports whether another link stands on a link, or has it as its port, also by others.
func (l *link) isBelow(other *link) bool {
	if l.master != nil && (l.master == other || l.master.isBelow(other)) {
		return true
	}
	return slices.ContainsFunc(l.above, func(child *link) bool { return child == other || child.isBelow(other) })
}

// receives reports whether what comes in by a link is already somebody's, of which there can be one.
func (l *link) receives() bool {
	return l.master != nil && l.master.Vrf == nil ||
		slices.ContainsFunc(l.above, func(child *link) bool { return child.Macvlan != nil || child.Ipvlan != nil })
}

// moveTable takes a link that is up down before it joins or leaves a VRF, and what it returns takes
// it up again: so its routes come to the other table. One that is down loses its addresses of IPv6.
func (k *Kernel) moveTable(l *link) (done func()) {
	if !l.Up {
		k.leaveIPv6(l)
		return func() {}
	}
	k.goDown(l)
	k.dropRoutes(l, true, netip.Addr.Is4)
	return func() { _ = k.setUp(l, true) } // nothing refuses what was up
}

// noMAC is what a bridge has whose last port has gone.
const noMAC = kernel.ZeroMAC

// followPorts gives a bridge the lowest hardware address and the smallest MTU of its ports,
// as far as nobody has given it others.
func (k *Kernel) followPorts(m *link) {
	if m == nil || m.Bridge == nil {
		return
	}
	mac, mtu := noMAC, 1500
	for i, p := range m.ports {
		if i == 0 || p.MAC < mac {
			mac = p.MAC
		}
		if i == 0 || p.MTU < mtu {
			mtu = p.MTU
		}
	}
	if m.givenMAC {
		mac = m.MAC
	}
	if m.givenMTU {
		mtu = m.MTU
	}
	k.setMTU(m, mtu)
	k.setMAC(m, mac)
}

func firstVLANs(b *kernel.BridgeSpec) []kernel.BridgeVLAN {
	if pvid := int(*b.DefaultPVID); pvid != 0 {
		return []kernel.BridgeVLAN{{ID: pvid, PVID: true, Untagged: true}}
	}
	return nil
}

// BridgeVLANs are those of the port of a bridge, or of a bridge itself, in their order.
func (k *Kernel) BridgeVLANs(ns kernel.NS, index int) (list []kernel.BridgeVLAN, err error) {
	err = k.in(ns, "BridgeVLANs", fmt.Sprintf("list VLANs of link %d", index), func(n *namespace) error {
		l, err := n.link(index)
		if err == nil {
			list = slices.Clone(l.vlans)
		}
		return err
	})
	return list, err
}

// SetBridgeVLANs makes the VLANs of a port, or of a bridge itself, those of the list.
func (k *Kernel) SetBridgeVLANs(ns kernel.NS, index int, list []kernel.BridgeVLAN) error {
	return k.write(ns, "SetBridgeVLANs", fmt.Sprintf("set VLANs of link %d", index), func(n *namespace) error {
		l, err := n.link(index)
		if err != nil {
			return err
		}
		if l.Bridge == nil && (l.master == nil || l.master.Bridge == nil) {
			return refused(syscall.EOPNOTSUPP)
		}
		l.vlans = slices.SortedFunc(slices.Values(list), func(a, b kernel.BridgeVLAN) int { return cmp.Compare(a.ID, b.ID) })
		k.tell(kernel.Event{NS: ns, Port: index})
		return nil
	})
}
