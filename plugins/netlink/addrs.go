package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Protocols of addresses, as in linux/if_addr.h.
const (
	protoLinkLocal = 3 // IFAPROT_KERNEL_LL, the highest of the kernel's own
	// protoLifetime is put on addresses of ours that end and have no protocol,
	// so that they are not taken for those of a daemon.
	protoLifetime = 0x50
)

// loopback is what the kernel gives lo when it goes up, without a protocol.
var loopback = netip.MustParsePrefix("127.0.0.1/8")

// Addresses of one link, or of all with index 0, in the order of links, IPv4
// first, and as the kernel lists them: primary before secondary.
func (k *Kernel) Addresses(ns kernel.NS, index int) (list []kernel.Address, err error) {
	err = k.in(ns, "list addresses", func(n *namespace) error {
		list, err = n.addresses(index, k.namesMakers)
		return err
	})
	return list, err
}

func (n *namespace) addresses(index int, named bool) (list []kernel.Address, err error) {
	m := newMessage(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	m.address(unix.AF_UNSPEC, 0, 0, index)
	err = n.dump(m, func() { list = nil }, func(_ uint16, body []byte) {
		// Kernels without filters return those of all links.
		if a, ok := parseAddress(body, named); ok && (index == 0 || a.Index == index) {
			list = append(list, a)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b kernel.Address) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Prefix.Addr().BitLen(), b.Prefix.Addr().BitLen()))
	})
	return list, nil
}

// AddAddress adds an address as it is given, host bits and all. IPv6 addresses
// are usable at once, without duplicate address detection: a route that names
// one as its source would be refused while detection runs.
func (k *Kernel) AddAddress(ns kernel.NS, a kernel.Address) error {
	return k.AddAddresses(ns, []kernel.Address{a})[0]
}

// AddAddresses adds addresses with one call of the kernel for many.
func (k *Kernel) AddAddresses(ns kernel.NS, as []kernel.Address) []error {
	errs := make([]error, len(as))
	act := func(i int) string { return fmt.Sprintf("add address %s to link %d", as[i].Prefix, as[i].Index) }
	k.inMany(ns, errs, act, func(n *namespace) {
		n.writeAddresses(as, errs, func(a kernel.Address) *message { return newAddress(a, unix.NLM_F_CREATE|unix.NLM_F_EXCL) })
		for i, err := range errs {
			if errors.Is(err, unix.EACCES) && as[i].Prefix.Addr().Is6() {
				errs[i] = fmt.Errorf("IPv6 is disabled on this link, see sysctl net.ipv6.conf.<link>.disable_ipv6: %w", err)
			}
		}
	})
	return errs
}

// ChangeAddress changes what can be changed of an address that is there.
func (k *Kernel) ChangeAddress(ns kernel.NS, a kernel.Address) error {
	return k.in(ns, fmt.Sprintf("change address %s of link %d", a.Prefix, a.Index), func(n *namespace) error {
		if err := checkAddress(a); err != nil {
			return err
		}
		if a.Prefix.Addr().Is6() && a.Metric == 0 {
			a.Metric = metricConnected6 // 0 leaves the metric as it is
		}
		return n.do(newAddress(a, unix.NLM_F_REPLACE), nil)
	})
}

// DeleteAddress removes an address. Of several equal ones with different
// lengths or peers it removes that with the length and the peer given.
func (k *Kernel) DeleteAddress(ns kernel.NS, a kernel.Address) error {
	return k.DeleteAddresses(ns, []kernel.Address{a})[0]
}

// DeleteAddresses removes addresses with one call of the kernel for many.
func (k *Kernel) DeleteAddresses(ns kernel.NS, as []kernel.Address) []error {
	errs := make([]error, len(as))
	act := func(i int) string { return fmt.Sprintf("delete address %s of link %d", as[i].Prefix, as[i].Index) }
	k.inMany(ns, errs, act, func(n *namespace) { n.writeAddresses(as, errs, oldAddress) })
	return errs
}

// writeAddresses sends the request of each address that is one.
func (n *namespace) writeAddresses(as []kernel.Address, errs []error, request func(kernel.Address) *message) {
	ms, of := make([]*message, 0, len(as)), make([]int, 0, len(as)) // whose each message is
	for i, a := range as {
		if errs[i] = checkAddress(a); errs[i] == nil {
			ms, of = append(ms, request(a)), append(of, i)
		}
	}
	for j, err := range n.doEach(ms, nil) {
		errs[of[j]] = err
	}
}

func checkAddress(a kernel.Address) error {
	if !a.Prefix.IsValid() || a.Prefix.Addr().Is4In6() {
		return fmt.Errorf("not an address with a length: %w", unix.EINVAL)
	}
	if a.Peer.IsValid() && (a.Peer.Is4() != a.Prefix.Addr().Is4() || a.Peer.Is4In6()) {
		return fmt.Errorf("not a peer of that family: %w", unix.EINVAL)
	}
	return checkIndex(a.Index)
}

// oldAddress is the request to delete an address.
func oldAddress(a kernel.Address) *message {
	m := newMessage(unix.RTM_DELADDR, 0)
	m.address(family(a.Prefix.Addr()), a.Prefix.Bits(), 0, a.Index)
	m.addr(unix.IFA_LOCAL, a.Prefix.Addr())
	if a.Prefix.Addr().Is4() {
		m.addr(unix.IFA_ADDRESS, otherEnd(a))
	}
	return m
}

// newAddress is the request to add an address, or to change it.
func newAddress(a kernel.Address, flags int) *message {
	m := newMessage(unix.RTM_NEWADDR, flags)
	addr := a.Prefix.Addr()
	m.address(family(addr), a.Prefix.Bits(), a.Scope, a.Index)
	m.addr(unix.IFA_LOCAL, addr)
	m.addr(unix.IFA_ADDRESS, otherEnd(a))
	if a.Label != "" {
		m.str(unix.IFA_LABEL, a.Label)
	}
	if a.Broadcast.IsValid() {
		m.addr(unix.IFA_BROADCAST, a.Broadcast)
	}
	if flags := flagsOf(a); flags != 0 {
		m.u32(unix.IFA_FLAGS, flags)
	}
	if a.Metric != 0 {
		m.u32(unix.IFA_RT_PRIORITY, a.Metric)
	}
	proto := a.Protocol
	if a.Valid != 0 || a.Preferred != 0 || a.Deprecated {
		valid := orForever(a.Valid)
		preferred := min(orForever(a.Preferred), valid)
		if a.Deprecated {
			preferred = 0
		}
		m.head(unix.IFA_CACHEINFO, 16)
		for _, v := range []uint32{preferred, valid, 0, 0} {
			m.b = native.AppendUint32(m.b, v)
		}
		if proto == 0 {
			proto = protoLifetime
		}
	}
	if proto != 0 {
		m.u8(ifaProto, proto)
	}
	return m
}

func flagsOf(a kernel.Address) (flags uint32) {
	if a.NoDetection && a.Prefix.Addr().Is6() {
		flags = unix.IFA_F_NODAD
	}
	if a.NoPrefixRoute {
		flags |= unix.IFA_F_NOPREFIXROUTE
	}
	return flags
}

// otherEnd is what the kernel takes the network of an address from.
func otherEnd(a kernel.Address) netip.Addr {
	if a.Peer.IsValid() {
		return a.Peer
	}
	return a.Prefix.Addr()
}

// address adds the header of address messages (struct ifaddrmsg).
func (m *message) address(family uint8, bits, scope, index int) {
	m.b = append(m.b, family, uint8(bits), 0, uint8(scope))
	m.b = native.AppendUint32(m.b, uint32(index))
}

func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// parseAddress reads the body of an address message; named says that the kernel names who
// made an address, see [namesMakers].
func parseAddress(body []byte, named bool) (a kernel.Address, ok bool) {
	if len(body) < unix.SizeofIfAddrmsg || body[0] != unix.AF_INET && body[0] != unix.AF_INET6 {
		return a, false
	}
	a.Index = int(asU32(body[4:]))
	a.Scope = int(body[3])
	flags := uint32(body[2])
	var local, address netip.Addr
	for typ, v := range attributes(body[unix.SizeofIfAddrmsg:]) {
		switch typ {
		case unix.IFA_LOCAL:
			local = asAddr(v)
		case unix.IFA_ADDRESS:
			address = asAddr(v)
		case unix.IFA_BROADCAST:
			a.Broadcast = asAddr(v)
		case unix.IFA_LABEL:
			a.Label = asString(v)
		case unix.IFA_FLAGS:
			flags = asU32(v)
		case unix.IFA_RT_PRIORITY:
			a.Metric = asU32(v)
		case ifaProto:
			a.Protocol = asU8(v)
		case unix.IFA_CACHEINFO:
			lifetimes(&a, v)
		}
	}
	if !local.IsValid() {
		local = address // IPv6 without a peer
	}
	if address != local {
		a.Peer = address
	}
	a.Prefix = netip.PrefixFrom(local, int(body[1]))
	// The same bit means temporary in IPv6.
	a.Secondary = body[0] == unix.AF_INET && flags&unix.IFA_F_SECONDARY != 0
	a.Tentative = body[0] == unix.AF_INET6 && flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0
	a.Duplicate = body[0] == unix.AF_INET6 && flags&unix.IFA_F_DADFAILED != 0
	a.NoDetection = body[0] == unix.AF_INET6 && flags&unix.IFA_F_NODAD != 0
	a.NoPrefixRoute = flags&unix.IFA_F_NOPREFIXROUTE != 0
	if body[0] == unix.AF_INET6 && a.Metric == metricConnected6 {
		a.Metric = 0
	}
	ends := flags&unix.IFA_F_PERMANENT == 0 && a.Valid != 0
	a.Kernel = a.Protocol >= 1 && a.Protocol <= protoLinkLocal || a.Protocol == 0 && (ends || unnamed(a, named))
	return a, a.Prefix.IsValid()
}

// unnamed reports whether the kernel made an address without saying so: those of loopbacks,
// those of tunnels of IP that are made of the IPv4 address of their end, and where it names
// nobody all that are good on their link only.
func unnamed(a kernel.Address, named bool) bool {
	switch {
	case a.Prefix == loopback:
		return a.Scope == unix.RT_SCOPE_HOST
	case !named && a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast():
		return a.Prefix.Bits() == 64
	}
	end := a.Prefix.Addr().As16()
	return end[12] != 0 && // no IPv4 address of a host begins with 0
		(a.Prefix.Bits() == 64 && fromIPv4.Contains(a.Prefix.Addr()) || a.Prefix.Bits() == 96 && compatible.Contains(a.Prefix.Addr()))
}

// See add_v4_addrs in the kernel's net/ipv6/addrconf.c.
var (
	fromIPv4   = netip.MustParsePrefix("fe80::/96")
	compatible = netip.MustParsePrefix("::/96")
)

// namesMakers reports whether the kernel names who made an address, by a protocol, as Linux
// does since 5.18.
func namesMakers() bool {
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) != nil {
		return false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 18)
}

func orForever(seconds uint32) uint32 {
	if seconds == 0 {
		return forever
	}
	return seconds
}

// lifetimes reads struct ifa_cacheinfo: the seconds that are left, and when they were set,
// in hundredths of a second since the boot.
func lifetimes(a *kernel.Address, v []byte) {
	if len(v) < 16 {
		return
	}
	preferred, valid, set := asU32(v), asU32(v[4:]), asU32(v[12:])
	a.Deprecated = preferred == 0
	if preferred != forever {
		a.Preferred = preferred
	}
	if valid != forever {
		a.Valid = valid
	}
	var now unix.Timespec
	if (preferred != forever || valid != forever) && unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		// Both run over after 497 days, and so does the difference. The kernel's clock may
		// be ahead of ours by a tick.
		a.Age = (uint32(now.Nano()/1e7) - set + 50) / 100
	}
}
