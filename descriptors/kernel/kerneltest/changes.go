package kerneltest

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

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

// SetLinks changes many, one after the other.
func (k *Kernel) SetLinks(ns kernel.NS, changes []kernel.LinkChange) []error {
	errs := make([]error, len(changes))
	for i, c := range changes {
		errs[i] = k.SetLink(ns, c.Index, c.Patch)
	}
	return errs
}

func (k *Kernel) change(l *link, p kernel.LinkPatch) error {
	k.accept(l, p.Accepts)
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
		l.ns.forgetIPv6Settings(l.Name)
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
		l.ns.moveSettings(l.Name, *p.Name)
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
