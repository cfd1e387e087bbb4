package kerneltest

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Scopes and protocols of addresses, as in linux/rtnetlink.h and linux/if_addr.h.
const (
	scopeLink = 253
	scopeHost = 254

	protoLoopback  = 1 // IFAPROT_KERNEL_LO
	protoLinkLocal = 3 // IFAPROT_KERNEL_LL
	protoLifetime  = 0x50
)

var (
	loopback4 = netip.MustParsePrefix("127.0.0.1/8")
	loopback6 = netip.MustParsePrefix("::1/128")
)

// Addresses of one link, or of all with index 0.
func (k *Kernel) Addresses(ns kernel.NS, index int) (list []kernel.Address, err error) {
	err = k.in(ns, "Addresses", "list addresses", func(n *namespace) error {
		if index != 0 {
			if l := n.links[index]; l != nil {
				list = l.sortedAddresses()
			}
			return nil
		}
		for _, l := range n.sorted() {
			list = append(list, l.sortedAddresses()...)
		}
		return nil
	})
	return list, err
}

// sortedAddresses are IPv4 first.
func (l *link) sortedAddresses() []kernel.Address {
	list := slices.Clone(l.addresses)
	slices.SortStableFunc(list, func(a, b kernel.Address) int {
		return cmp.Compare(a.Prefix.Addr().BitLen(), b.Prefix.Addr().BitLen())
	})
	return list
}

// AddAddress adds an address as it is given.
func (k *Kernel) AddAddress(ns kernel.NS, a kernel.Address) error {
	return k.write(ns, "AddAddress", fmt.Sprintf("add address %s to link %d", a.Prefix, a.Index), func(n *namespace) error {
		l, err := n.forAddress(a)
		if err != nil {
			return err
		}
		a.Kernel, a.Secondary = false, false
		if a.Peer == a.Prefix.Addr() {
			a.Peer = netip.Addr{}
		}
		if a.Valid != 0 || a.Preferred != 0 || a.Deprecated {
			a.Protocol = cmp.Or(a.Protocol, protoLifetime)
		}
		setLifetimes(&a, a)
		if a.Prefix.Addr().Is6() {
			return k.addAddress6(l, a)
		}
		a.Label = cmp.Or(a.Label, l.Name)
		return k.addAddress4(l, a)
	})
}

// AddAddresses adds many, one after the other.
func (k *Kernel) AddAddresses(ns kernel.NS, as []kernel.Address) []error {
	errs := make([]error, len(as))
	for i, a := range as {
		errs[i] = k.AddAddress(ns, a)
	}
	return errs
}

// ChangeAddress gives an address other lifetimes and another protocol, and adds one that is
// not there.
func (k *Kernel) ChangeAddress(ns kernel.NS, a kernel.Address) error {
	add := false
	err := k.write(ns, "ChangeAddress", fmt.Sprintf("change address %s of link %d", a.Prefix, a.Index), func(n *namespace) error {
		l, err := n.forAddress(a)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(l.addresses, func(other kernel.Address) bool { return sameAddress(other, a) })
		if add = i < 0; add {
			return nil
		}
		is := &l.addresses[i]
		if a.Prefix.Addr().Is6() && a.Peer.IsValid() && a.Peer != is.Peer {
			was := *is
			is.Peer = a.Peer
			k.disconnect6(l, was)
			k.connect6(l, *is)
		}
		k.changeRoute(l, is, a)
		setLifetimes(is, a)
		is.Protocol, is.Kernel = cmp.Or(a.Protocol, is.Protocol), false
		k.tellAddress(l, *is, false)
		return nil
	})
	if err == nil && add {
		return k.AddAddress(ns, a)
	}
	return err
}

// setLifetimes are those that Linux shows of what is asked. They do not run here: an address
// has as long to live as when that was set.
func setLifetimes(is *kernel.Address, asked kernel.Address) {
	is.Valid, is.Preferred, is.Deprecated, is.Age = asked.Valid, asked.Preferred, asked.Deprecated, 0
	if is.Valid != 0 && (is.Preferred == 0 || is.Preferred > is.Valid) {
		is.Preferred = is.Valid
	}
	switch {
	case is.Valid == 0 && is.Prefix.Addr().Is4(): // it is permanent, and so preferred
		is.Preferred, is.Deprecated = 0, false
	case is.Deprecated:
		is.Preferred = 0
	}
}

func (n *namespace) forAddress(a kernel.Address) (*link, error) {
	if !a.Prefix.IsValid() || a.Prefix.Addr().Is4In6() {
		return nil, fmt.Errorf("not an address with a length: %w", syscall.EINVAL)
	}
	if a.Peer.IsValid() && (a.Peer.Is4() != a.Prefix.Addr().Is4() || a.Peer.Is4In6()) {
		return nil, fmt.Errorf("not a peer of that family: %w", syscall.EINVAL)
	}
	return n.link(a.Index)
}

// sameNetwork reports whether two addresses are of one subnet, which is that of the peer where
// there is one.
func sameNetwork(a, b kernel.Address) bool {
	return a.Prefix.Bits() == b.Prefix.Bits() && a.Network() == b.Network()
}

// sameAddress reports whether two addresses are one. Those of IPv6 are, whoever is the peer.
func sameAddress(a, b kernel.Address) bool {
	return a.Prefix == b.Prefix && (a.Prefix.Addr().Is6() || sameNetwork(a, b))
}

// addAddress4 adds an address behind the last primary one that is as near, or as a secondary
// one of its subnet at the end.
func (k *Kernel) addAddress4(l *link, a kernel.Address) error {
	at := 0
	for i, other := range l.addresses {
		if !other.Prefix.Addr().Is4() {
			continue
		}
		if !other.Secondary && a.Scope <= other.Scope {
			at = i + 1
		}
		if !sameNetwork(other, a) {
			continue
		}
		if other.Prefix == a.Prefix {
			return refused(syscall.EEXIST)
		}
		if other.Scope != a.Scope {
			return syscall.EINVAL
		}
		a.Secondary = true
	}
	if a.Secondary {
		at = len(l.addresses)
	}
	l.take(a, at)
	k.tellAddress(l, a, false)
	k.connect4(l, a)
	return nil
}

// take gives a link an address.
func (l *link) take(a kernel.Address, at int) {
	l.addresses = slices.Insert(l.addresses, at, a)
	l.ns.hadIPv4 = l.ns.hadIPv4 || a.Prefix.Addr().Is4()
	l.ns.local[a.Prefix.Addr()] = append(l.ns.local[a.Prefix.Addr()], l)
}

// primary is the first address of the network of another one.
func (l *link) primary(a kernel.Address) netip.Addr {
	i := slices.IndexFunc(l.addresses, func(other kernel.Address) bool { return !other.Secondary && sameNetwork(other, a) })
	if i < 0 {
		return a.Prefix.Addr()
	}
	return l.addresses[i].Prefix.Addr()
}

// table is where the routes to the subnets of a link are.
func (l *link) table() uint32 {
	switch {
	case l.Vrf != nil:
		return l.Vrf.Table
	case l.master != nil && l.master.Vrf != nil:
		return l.master.Vrf.Table
	}
	return tableMain
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// broadcast is the last address of a subnet.
func broadcast(subnet netip.Prefix) netip.Addr {
	a := subnet.Addr().As4()
	for i := subnet.Bits(); i < 32; i++ {
		a[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(a)
}

// comeToIPv4 is what a link that goes up gets back.
func (k *Kernel) comeToIPv4(l *link) {
	if l.Name == loopback && !slices.ContainsFunc(l.addresses, func(a kernel.Address) bool { return a.Prefix == loopback4 }) {
		a := kernel.Address{Index: l.Index, Prefix: loopback4, Label: loopback, Scope: scopeHost, Kernel: true}
		l.take(a, 0)
		k.tellAddress(l, a, false)
	}
	for _, a := range l.addresses {
		if a.Prefix.Addr().Is4() {
			k.connect4(l, a)
		}
	}
}

func (k *Kernel) addAddress6(l *link, a kernel.Address) error {
	switch {
	case k.ipv6Disabled(l):
		return fmt.Errorf("IPv6 is disabled on this link, see sysctl net.ipv6.conf.<link>.disable_ipv6: %w", syscall.EACCES)
	case l.MTU < minMTU6:
		return syscall.EINVAL
	case slices.ContainsFunc(l.addresses, func(other kernel.Address) bool { return other.Prefix.Addr() == a.Prefix.Addr() }):
		return refused(syscall.EEXIST)
	}
	addr := a.Prefix.Addr()
	a.Label, a.Broadcast, a.Metric = "", netip.Addr{}, metricOf6(a)
	switch {
	case addr.IsLoopback():
		a.Scope = scopeHost
	case addr.IsLinkLocalUnicast():
		a.Scope = scopeLink
	default:
		a.Scope = 0
	}
	k.putAddress6(l, a)
	k.connectMulticast(l)
	return nil
}

// putAddress6 adds an address, of which the last one is listed first but for its scope.
func (k *Kernel) putAddress6(l *link, a kernel.Address) {
	at := slices.IndexFunc(l.addresses, func(other kernel.Address) bool {
		return other.Prefix.Addr().Is6() && other.Scope >= a.Scope
	})
	if at < 0 {
		at = len(l.addresses)
	}
	l.take(a, at)
	k.connect6(l, a)
	k.tellAddress(l, a, false)
}

// returnToIPv6 gives a link that goes up the routes of the addresses that it has been given
// while it was down.
func (k *Kernel) returnToIPv6(l *link) {
	for _, a := range l.addresses {
		if a.Prefix.Addr().Is6() {
			a.Peer = netip.Addr{} // the way to that Linux may forget
			k.connect6(l, a)
		}
	}
}

// comeToIPv6 gives a link that begins to run its own addresses.
func (k *Kernel) comeToIPv6(l *link) {
	if l.ready || l.MTU < minMTU6 || k.ipv6Disabled(l) {
		return
	}
	l.ready = true
	k.connectMulticast(l)
	for _, own := range k.ownAddresses(l) {
		own.Index, own.Kernel = l.Index, true
		if !slices.ContainsFunc(l.addresses, func(a kernel.Address) bool { return a.Prefix.Addr() == own.Prefix.Addr() }) {
			k.putAddress6(l, own)
		}
	}
}

// ownAddresses are those that Linux gives to a link.
func (k *Kernel) ownAddresses(l *link) []kernel.Address {
	switch {
	case l.Name == loopback:
		return []kernel.Address{{Prefix: loopback6, Scope: scopeHost, Protocol: protoLoopback}}
	case l.Vrf != nil, l.master != nil && l.master.Bond != nil:
		return nil
	case l.Tunnel != nil && l.MAC == "":
		return k.tunnelAddresses(l)
	}
	own := linkLocal(l.MAC)
	if !own.IsValid() {
		return nil
	}
	return []kernel.Address{{Prefix: own, Scope: scopeLink, Protocol: protoLinkLocal}}
}

// linkLocal is the address that is made of a hardware address (EUI-64).
func linkLocal(mac string) netip.Prefix {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return netip.Prefix{}
	}
	a := [16]byte{0: 0xfe, 1: 0x80, 8: hw[0] ^ 2, 9: hw[1], 10: hw[2], 11: 0xff, 12: 0xfe, 13: hw[3], 14: hw[4], 15: hw[5]}
	return netip.PrefixFrom(netip.AddrFrom16(a), 64)
}

// leaveIPv6 takes all addresses of IPv6 from a link, and its routes.
func (k *Kernel) leaveIPv6(l *link) {
	l.ready = false
	k.dropNeighbors(l, netip.Addr.Is6)
	k.dropRoutes(l, false, netip.Addr.Is6)
	for _, a := range slices.Clone(l.addresses) {
		if a.Prefix.Addr().Is6() {
			k.dropAddress(l, a)
		}
	}
}

// DeleteAddress removes an address. Secondary ones of its subnet go with it, or the first of
// them takes its place.
func (k *Kernel) DeleteAddress(ns kernel.NS, a kernel.Address) error {
	return k.write(ns, "DeleteAddress", fmt.Sprintf("delete address %s of link %d", a.Prefix, a.Index), func(n *namespace) error {
		l, err := n.forAddress(a)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(l.addresses, func(other kernel.Address) bool { return sameAddress(other, a) })
		if a.Prefix.Addr().Is6() && l.MTU < minMTU6 {
			return refused(syscall.ENXIO)
		}
		if at < 0 {
			return refused(syscall.EADDRNOTAVAIL)
		}
		k.removeAddress(l, l.addresses[at])
		return nil
	})
}

// DeleteAddresses removes many, one after the other.
func (k *Kernel) DeleteAddresses(ns kernel.NS, as []kernel.Address) []error {
	errs := make([]error, len(as))
	for i, a := range as {
		errs[i] = k.DeleteAddress(ns, a)
	}
	return errs
}

func (k *Kernel) removeAddress(l *link, a kernel.Address) {
	var secondaries []kernel.Address
	for _, other := range l.addresses {
		if other.Secondary && !a.Secondary && sameNetwork(other, a) {
			secondaries = append(secondaries, other)
		}
	}
	promote := k.promotes(l)
	if !promote {
		for _, other := range secondaries {
			k.dropAddress(l, other)
		}
	}
	k.dropAddress(l, a)
	if promote && len(secondaries) > 0 {
		next := secondaries[0]
		l.addresses = slices.DeleteFunc(l.addresses, func(other kernel.Address) bool { return other == next })
		next.Secondary = false
		at := 0
		for i, other := range l.addresses {
			if other.Prefix.Addr().Is4() && !other.Secondary {
				at = i + 1
			}
		}
		l.addresses = slices.Insert(l.addresses, at, next)
		k.tellAddress(l, next, false)
		for _, a := range append([]kernel.Address{next}, secondaries[1:]...) {
			for _, r := range l.ns.routes.to(hostPrefix(a.Prefix.Addr())) {
				if r.Type == "local" && r.Protocol == protoKernel && r.Index == l.Index {
					k.removeRoute(l.ns, r, true) // which named the one before
				}
			}
			k.connect4(l, a)
		}
	}
}

// dropAddress removes one address with what stands on it: the route to its subnet and, of
// IPv4, those that name it as their source.
func (k *Kernel) dropAddress(l *link, a kernel.Address) {
	l.addresses = slices.DeleteFunc(l.addresses, func(other kernel.Address) bool { return other == a })
	n, addr := l.ns, a.Prefix.Addr()
	delete(l.lostLocals, addr)
	have := n.local[addr]
	if have = slices.Delete(have, slices.Index(have, l), slices.Index(have, l)+1); len(have) == 0 {
		delete(n.local, addr)
	} else {
		n.local[addr] = have
	}
	k.tellAddress(l, a, true)
	if addr.Is6() {
		k.disconnect6(l, a)
		return
	}
	again := slices.ContainsFunc(l.addresses, func(other kernel.Address) bool { return other.Prefix.Addr() == addr })
	for _, dst := range []netip.Prefix{a.Network(), hostPrefix(addr), hostPrefix(broadcast(a.Network()))} {
		for _, r := range n.routes.to(dst) {
			goes := !a.Secondary && r.Src == addr
			if r.Type == "local" {
				goes = !again && r.Dst == hostPrefix(addr)
			}
			if goes && r.Protocol == protoKernel && r.Index == l.Index {
				k.removeRoute(n, r, true)
			}
		}
	}
	if !n.isLocal(addr) { // no other link has it
		for _, r := range n.routes.all() {
			if r.Src == addr {
				k.removeRoute(n, r, true)
			}
		}
	}
	if !slices.ContainsFunc(l.addresses, func(a kernel.Address) bool { return a.Prefix.Addr().Is4() }) {
		k.dropRoutes(l, false, netip.Addr.Is4) // without an address there is no IPv4 on it
		k.dropNeighbors(l, netip.Addr.Is4)
	}
}

// dropAddresses removes those of a link that goes.
func (k *Kernel) dropAddresses(l *link) {
	for _, a := range slices.Clone(l.addresses) {
		k.dropAddress(l, a)
	}
}

// linkWith is the first link that got an address, or the one with an index; nil if it has not.
func (n *namespace) linkWith(addr netip.Addr, index int) *link {
	for _, l := range n.local[addr] {
		if index == 0 || l.Index == index {
			return l
		}
	}
	return nil
}

func (n *namespace) isLocal(addr netip.Addr) bool { return len(n.local[addr]) > 0 }
