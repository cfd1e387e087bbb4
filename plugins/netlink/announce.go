package netlink

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Announcements are sent through a packet socket. The sysctls arp_notify and ndisc_notify are not
// sufficient: with them the kernel announces when a link is set up or its MAC changes, but not
// when an address is added to a link that is up.

// carrierWait bounds how long an announcement waits for asynchronous work of the kernel: after the
// reply to a request, the kernel still has to propagate a new carrier to the link and its bridge,
// and to accept packets to a new IPv6 address.
const carrierWait = 250 * time.Millisecond

// Announce implements [kernel.Announcements].
func (k *Kernel) Announce(ns kernel.NS, as []kernel.Announcement) []error {
	errs := make([]error, len(as))
	act := func(i int) string { return fmt.Sprintf("announce address %s of link %d", as[i].Address, as[i].Index) }
	k.inMany(ns, errs, act, func(n *namespace) { k.announce(n, as, errs) })
	return errs
}

func (k *Kernel) announce(n *namespace, as []kernel.Announcement, errs []error) {
	end := time.Now().Add(carrierWait)
	outlets := k.waitForOutlets(n, as, end)
	n.waitForLocal(as, outlets, errs, end)
	fd := -1
	for i, a := range as {
		o := outlets[a.Index]
		if errs[i] = cmp.Or(o.err(), errs[i]); errs[i] != nil {
			continue
		}
		if fd < 0 {
			if fd, errs[i] = n.openPacket(); errs[i] != nil {
				for j := i + 1; j < len(as); j++ {
					errs[j] = errs[i]
				}
				return
			}
			defer k.packets.close(fd)
		}
		errs[i] = refused(send(fd, o, a))
	}
}

// openPacket opens a packet socket that receives nothing. At the limit of open files it closes
// idle conns and tries again.
func (n *namespace) openPacket() (fd int, err error) {
	for {
		err = n.within(func() (err error) {
			fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			return err
		})
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EMFILE) || !n.calm.closeAll() {
			return -1, fmt.Errorf("open packet socket: %w", err)
		}
	}
}

// outlet is the state of a link that announcements depend on.
type outlet struct {
	refused error // of reading the link
	flags   uint32
	arp     bool // neighbours resolve MACs by ARP and NDP
	mac     [6]byte
	router  bool // the host forwards IPv6 packets that arrive on the link
	// port is the bridge port state of the link, or of its veth peer.
	port    int
	master  int
	cable   bool // the link is a veth
	end     int  // index of the veth peer
	endNSID int32
	abroad  bool // the veth peer is in the namespace endNSID
}

// States of a bridge port, as in linux/if_bridge.h. A port is disabled until its bridge has
// processed its carrier.
const (
	noPort         = -1
	portDisabled   = 0
	portForwarding = 3
)

// err returns the reason why nothing can be announced on the link, or nil.
func (o *outlet) err() error {
	switch {
	case o.refused != nil:
		return o.refused
	case !o.arp:
		return refused(&refusal{unix.EOPNOTSUPP, "nobody on the network of the link asks for MACs"})
	case o.flags&unix.IFF_UP == 0:
		return refused(unix.ENETDOWN)
	case o.flags&unix.IFF_RUNNING == 0 || o.flags&unix.IFF_LOWER_UP == 0:
		// The kernel updates IFF_LOWER_UP at once, and IFF_RUNNING later.
		return refused(&refusal{unix.ENETDOWN, "the link has no carrier"})
	case o.port != noPort && o.port != portForwarding:
		return refused(&refusal{unix.ENETDOWN, "the port of the bridge at the other end does not forward yet"})
	}
	return nil
}

// soon reports whether the link has a carrier that the kernel or the bridge still processes.
func (o *outlet) soon() bool {
	if o.refused != nil || !o.arp {
		return false
	}
	carrier := o.flags&unix.IFF_UP != 0 && o.flags&unix.IFF_LOWER_UP != 0
	return carrier && (o.flags&unix.IFF_RUNNING == 0 || o.port == portDisabled)
}

// waitForOutlets reads the links of announcements, and repeats that until end for links whose
// carrier is still being processed.
func (k *Kernel) waitForOutlets(n *namespace, as []kernel.Announcement, end time.Time) map[int]*outlet {
	outlets := make(map[int]*outlet, len(as))
	var unread []int
	for _, a := range as {
		if outlets[a.Index] == nil {
			outlets[a.Index] = &outlet{}
			unread = append(unread, a.Index)
		}
	}
	pause(end, func() (done bool) {
		k.readOutlets(n, unread, outlets)
		unread = slices.DeleteFunc(unread, func(index int) bool { return !outlets[index].soon() })
		return len(unread) == 0
	})
	return outlets
}

// waitForLocal waits until the host accepts packets to the IPv6 addresses. The kernel adds the
// local route in the background (addrconf_dad_begin in net/ipv6/addrconf.c), also without duplicate
// address detection. An address that is not accepted by end has been removed, or is not yet
// assigned to this host.
func (n *namespace) waitForLocal(as []kernel.Announcement, outlets map[int]*outlet, errs []error, end time.Time) {
	var fresh []int
	for i, a := range as {
		if a.Address.Is6() && !a.Address.Is4In6() && outlets[a.Index].err() == nil {
			fresh = append(fresh, i)
		}
	}
	pause(end, func() (done bool) {
		fresh = n.notLocal(as, fresh)
		return len(fresh) == 0
	})
	for _, i := range fresh {
		errs[i] = refused(&refusal{unix.EADDRNOTAVAIL, "the host accepts no packets to the address"})
	}
}

// notLocal returns those of the indexes in fresh whose address the host does not accept packets
// to, if they arrive on the link of the address.
func (n *namespace) notLocal(as []kernel.Announcement, fresh []int) (others []int) {
	ms, local := make([]*message, len(fresh)), make([]bool, len(fresh))
	for i, at := range fresh {
		a := as[at]
		ms[i] = newMessage(unix.RTM_GETROUTE, 0)
		ms[i].b = append(ms[i].b, unix.AF_INET6, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		ms[i].addr(unix.RTA_DST, a.Address)
		ms[i].u32(unix.RTA_IIF, uint32(a.Index))
	}
	n.doEach(ms, func(i int, _ uint16, body []byte) {
		local[i] = len(body) >= unix.SizeofRtMsg && body[7] == unix.RTN_LOCAL
	})
	for i, at := range fresh {
		if !local[i] {
			others = append(others, at)
		}
	}
	return others
}

// pause calls f at growing intervals until f returns true or end is reached.
func pause(end time.Time, f func() (done bool)) {
	for wait := 250 * time.Microsecond; !f() && time.Now().Add(wait).Before(end); wait = min(2*wait, 10*time.Millisecond) {
		time.Sleep(wait)
	}
}

// readOutlets reads links and the bridge port states of veth peers.
func (k *Kernel) readOutlets(n *namespace, indexes []int, outlets map[int]*outlet) {
	list := make([]*outlet, len(indexes))
	n.readOutlets(indexes, list)
	ends := map[kernel.NS][]*outlet{} // by the namespace of the veth peer
	for i, o := range list {
		outlets[indexes[i]] = o
		if !o.cable || o.end == 0 || o.err() != nil {
			continue
		}
		ns := n.id
		if o.abroad {
			ns = k.peer(n, o.endNSID)
		}
		ends[ns] = append(ends[ns], o)
	}
	delete(ends, 0) // peers in namespaces that are not open cannot be read
	for ns, near := range ends {
		k.readPorts(ns, near)
	}
}

// readPorts reads the bridge port states of veth peers in a namespace.
func (k *Kernel) readPorts(ns kernel.NS, near []*outlet) {
	far, err := k.enter(ns)
	if err != nil {
		return
	}
	defer far.leave()
	indexes, list := make([]int, len(near)), make([]*outlet, len(near))
	for i, o := range near {
		indexes[i] = o.end
	}
	far.readOutlets(indexes, list)
	for i, o := range near {
		o.port = list[i].port
	}
}

// readOutlets reads links of the namespace into list, with few system calls.
func (n *namespace) readOutlets(indexes []int, list []*outlet) {
	ms := make([]*message, len(indexes))
	for i, index := range indexes {
		list[i] = &outlet{port: noPort}
		ms[i] = newMessage(unix.RTM_GETLINK, 0)
		ms[i].link(unix.AF_UNSPEC, max(index, 0), 0, 0)
		ms[i].u32(unix.IFLA_EXT_MASK, skipStats)
	}
	for i, err := range n.doEach(ms, func(i int, _ uint16, body []byte) { list[i].parse(body) }) {
		list[i].refused = cmp.Or(checkIndex(indexes[i]), err)
	}
}

// Index of an IPv6 setting in link messages; see linux/ipv6.h.
const inet6Forwarding = 0 // DEVCONF_FORWARDING

func (o *outlet) parse(body []byte) {
	if len(body) < unix.SizeofIfInfomsg {
		return
	}
	o.flags = asU32(body[8:])
	ethernet := false
	for typ, v := range attributes(body[unix.SizeofIfInfomsg:]) {
		switch typ {
		case unix.IFLA_ADDRESS:
			ethernet = copy(o.mac[:], v) == len(o.mac) && len(v) == len(o.mac) && asU16(body[2:]) == unix.ARPHRD_ETHER
		case unix.IFLA_LINK:
			o.end = int(asU32(v))
		case unix.IFLA_MASTER:
			o.master = int(asU32(v))
		case unix.IFLA_LINK_NETNSID:
			o.endNSID, o.abroad = int32(asU32(v)), true
		case unix.IFLA_LINKINFO:
			o.parseInfo(v)
		case unix.IFLA_AF_SPEC:
			o.router = forwardsIPv6(v)
		}
	}
	o.arp = ethernet && o.flags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) == 0
}

func (o *outlet) parseInfo(b []byte) {
	bridged := false
	for typ, v := range attributes(b) {
		switch typ {
		case unix.IFLA_INFO_KIND:
			o.cable = asString(v) == "veth"
		case unix.IFLA_INFO_SLAVE_KIND:
			bridged = asString(v) == "bridge"
		case unix.IFLA_INFO_SLAVE_DATA:
			if !bridged {
				continue
			}
			for typ, v := range attributes(v) {
				if typ == unix.IFLA_BRPORT_STATE {
					o.port = int(asU8(v))
				}
			}
		}
	}
}

// forwardsIPv6 reports whether the host is a router on the link. Neighbours that use it as a
// router drop their routes through it when an advertisement lacks the router flag.
func forwardsIPv6(spec []byte) bool {
	for typ, v := range attributes(spec) {
		if typ != unix.AF_INET6 {
			continue
		}
		for typ, conf := range attributes(v) {
			if typ == inet6Conf && len(conf) >= 4*(inet6Forwarding+1) {
				return asU32(conf[4*inet6Forwarding:]) != 0
			}
		}
	}
	return false
}

// send sends the frame that announces an address. It sends only one, since a bridge copies each
// frame to all of its ports.
func send(fd int, o *outlet, a kernel.Announcement) error {
	addr := a.Address.Unmap()
	if !addr.Is4() {
		to := &unix.SockaddrLinklayer{Protocol: toBE16(unix.ETH_P_IPV6), Ifindex: a.Index, Halen: 6, Addr: allNodesMAC}
		return sendFrame(fd, neighborAdvertisement(addr, o.mac, o.router), to)
	}
	to := &unix.SockaddrLinklayer{Protocol: toBE16(unix.ETH_P_ARP), Ifindex: a.Index, Halen: 6, Addr: broadcastMAC}
	var operation uint16 = arpRequest
	if a.Reply {
		operation = arpReply
	}
	return sendFrame(fd, gratuitousARP(operation, addr, o.mac), to)
}

func sendFrame(fd int, frame []byte, to *unix.SockaddrLinklayer) error {
	for {
		if err := unix.Sendto(fd, frame, 0, to); err != unix.EINTR {
			return err
		}
	}
}

var (
	broadcastMAC = [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	allNodesMAC  = [8]byte{0x33, 0x33, 0, 0, 0, 1}
	allNodes     = netip.MustParseAddr("ff02::1").As16()
)

func toBE16(v uint16) uint16 {
	return native.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

const (
	arpRequest = 1
	arpReply   = 2
)

// gratuitousARP returns an ARP packet whose sender and target are the same address; see RFC 5227
// for the request, and RFC 5944, section 4.6, for the reply.
func gratuitousARP(operation uint16, addr netip.Addr, mac [6]byte) []byte {
	ip := addr.As4()
	b := make([]byte, 0, 28)
	b = binary.BigEndian.AppendUint16(b, unix.ARPHRD_ETHER)
	b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IP)
	b = append(b, 6, 4)
	b = binary.BigEndian.AppendUint16(b, operation)
	b = append(append(b, mac[:]...), ip[:]...)
	if operation == arpRequest {
		b = append(b, 0, 0, 0, 0, 0, 0)
	} else {
		b = append(b, mac[:]...)
	}
	return append(b, ip[:]...)
}

const (
	neighborAdvert = 136
	flagRouter     = 1 << 7
	flagOverride   = 1 << 5
	optionTarget   = 2 // the MAC of the target
	hopLimit       = 255
)

// neighborAdvertisement returns an IPv6 packet with an unsolicited neighbour advertisement to all
// nodes; see RFC 4861, section 7.2.6.
func neighborAdvertisement(addr netip.Addr, mac [6]byte, router bool) []byte {
	ip := addr.As16()
	flags := byte(flagOverride)
	if router {
		flags |= flagRouter
	}
	icmp := []byte{neighborAdvert, 0, 0, 0, flags, 0, 0, 0}
	icmp = append(icmp, ip[:]...)
	icmp = append(append(icmp, optionTarget, 1), mac[:]...)
	binary.BigEndian.PutUint16(icmp[2:], checksum(ip, allNodes, icmp))

	b := make([]byte, 0, 40+len(icmp))
	b = append(b, 6<<4, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(icmp)))
	b = append(b, unix.IPPROTO_ICMPV6, hopLimit)
	b = append(append(b, ip[:]...), allNodes[:]...)
	return append(b, icmp...)
}

// checksum returns the checksum of an ICMPv6 message of even length; see RFC 4443, section 2.3.
func checksum(from, to [16]byte, icmp []byte) uint16 {
	sum := uint32(len(icmp)) + unix.IPPROTO_ICMPV6
	for _, part := range [][]byte{from[:], to[:], icmp} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
