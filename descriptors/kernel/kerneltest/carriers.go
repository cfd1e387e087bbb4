package kerneltest

import (
	"net/netip"
	"slices"
	"syscall"
)

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
	clear(l.lostLocals) // Linux adds all routes of the addresses
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
