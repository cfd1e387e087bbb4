package kerneltest

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// withoutARP are the types of links on whose networks nobody asks for MACs.
var withoutARP = []string{"dummy", "ifb", "vrf", "wireguard", "gre", "ipip", "sit", "ip6gre", "ip6tnl"}

// asksForMACs reports whether neighbours ask for the MACs of addresses.
func (l *link) asksForMACs() bool {
	switch {
	case l.Name == loopback || slices.Contains(withoutARP, l.Type):
		return false
	case l.Tuntap != nil:
		return !l.Tuntap.Tun
	case l.Ipvlan != nil:
		return l.Ipvlan.Mode == "l2"
	}
	return true
}

// Announce sends announcements, of which Options.Announced is told; see the port.
func (k *Kernel) Announce(ns kernel.NS, as []kernel.Announcement) []error {
	errs := make([]error, len(as))
	for i, a := range as {
		act := fmt.Sprintf("announce address %s of link %d", a.Address, a.Index)
		errs[i] = k.in(ns, "Announce", act, func(n *namespace) error {
			l, err := n.link(a.Index)
			switch {
			case err != nil:
				return err
			case !l.asksForMACs():
				return refused(syscall.EOPNOTSUPP)
			case !l.running:
				return refused(syscall.ENETDOWN)
			case a.Address.Is6() && !slices.ContainsFunc(l.addresses, func(b kernel.Address) bool { return b.Prefix.Addr() == a.Address }):
				return refused(syscall.EADDRNOTAVAIL)
			}
			if k.opts.Announced != nil {
				k.opts.Announced(ns, a, l.MAC)
			}
			return nil
		})
	}
	return errs
}

// arping is "arping -U -I LINK ADDRESS".
func (c *request) arping() error {
	if w := c.next(); w != "-I" {
		c.fail("%q is not understood here", w)
	}
	index := c.device()
	return c.announce(index, c.addr())
}

// ndsend is "ndsend ADDRESS LINK".
func (c *request) ndsend() error {
	a := c.addr()
	return c.announce(c.device(), a)
}

func (c *request) announce(index int, a netip.Addr) error {
	if c.err != nil {
		return c.err
	}
	return c.k.Announce(c.ns, []kernel.Announcement{{Index: index, Address: a}})[0]
}
