package bench

import (
	"encoding/binary"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// plain is a program that knows what it wants and does nothing else: raw
// messages on a raw socket, no checks, no record, no reading. It is the floor.
type plain struct {
	t   testing.TB
	fd  int
	seq uint32
	msg []byte
	buf []byte
}

func newPlain(t testing.TB, n *netlinktest.Namespace) *plain {
	t.Helper()
	p := &plain{t: t, buf: make([]byte, 16<<10)}
	ns, err := netns.GetFromPath(n.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	s, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	p.fd = s.GetFd()
	t.Cleanup(s.Close)
	return p
}

var order = binary.NativeEndian

const create = unix.NLM_F_CREATE | unix.NLM_F_EXCL

func (p *plain) begin(typ, flags uint16, header ...byte) {
	p.msg = append(p.msg[:0], make([]byte, unix.NLMSG_HDRLEN)...)
	order.PutUint16(p.msg[4:], typ)
	order.PutUint16(p.msg[6:], flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	p.msg = append(p.msg, header...)
}

func (p *plain) attr(typ uint16, v ...byte) {
	p.msg = order.AppendUint16(p.msg, uint16(4+len(v)))
	p.msg = order.AppendUint16(p.msg, typ)
	p.msg = append(p.msg, v...)
	for len(p.msg)%4 != 0 {
		p.msg = append(p.msg, 0)
	}
}

func (p *plain) attr32(typ uint16, v uint32) { p.attr(typ, order.AppendUint32(nil, v)...) }

func (p *plain) nest(typ uint16, f func()) {
	at := len(p.msg)
	p.attr(typ | unix.NLA_F_NESTED)
	f()
	order.PutUint16(p.msg[at:], uint16(len(p.msg)-at))
}

// talk sends the message and waits for the acknowledgement.
func (p *plain) talk() {
	p.seq++
	order.PutUint32(p.msg, uint32(len(p.msg)))
	order.PutUint32(p.msg[8:], p.seq)
	if _, err := unix.Write(p.fd, p.msg); err != nil {
		p.t.Fatal(err)
	}
	n, err := unix.Read(p.fd, p.buf)
	if err != nil {
		p.t.Fatal(err)
	}
	if n < 20 || order.Uint16(p.buf[4:]) != unix.NLMSG_ERROR {
		p.t.Fatalf("plain program: no acknowledgement but %x", p.buf[:n])
	}
	if e := int32(order.Uint32(p.buf[16:])); e != 0 {
		p.t.Fatalf("plain program: message of type %d: %v", order.Uint16(p.msg[4:]), unix.Errno(-e))
	}
}

func ifinfo(index, flags uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	order.PutUint32(b[4:], index)
	order.PutUint32(b[8:], flags)
	order.PutUint32(b[12:], flags)
	return b
}

func text(s string) []byte { return append([]byte(s), 0) }

func (p *plain) bridge(index uint32, name string) {
	p.begin(unix.RTM_NEWLINK, create, ifinfo(index, unix.IFF_UP)...)
	p.attr(unix.IFLA_IFNAME, text(name)...)
	p.nest(unix.IFLA_LINKINFO, func() { p.attr(unix.IFLA_INFO_KIND, []byte("bridge")...) })
	p.talk()
}

// veth makes a pair as `ip link add` does, with as many queues as the kernel likes, in place, under indexes that the caller knows: this end up
// and in a bridge, the other in the namespace behind fd. That one cannot be up
// at birth: it has no peer then.
func (p *plain) veth(index uint32, name string, peerIndex uint32, peer string, group, master uint32, fd int) {
	p.begin(unix.RTM_NEWLINK, create, ifinfo(index, unix.IFF_UP)...)
	p.attr(unix.IFLA_IFNAME, text(name)...)
	p.attr32(unix.IFLA_GROUP, group)
	p.attr32(unix.IFLA_MASTER, master)
	p.nest(unix.IFLA_LINKINFO, func() {
		p.attr(unix.IFLA_INFO_KIND, []byte("veth")...)
		p.nest(unix.IFLA_INFO_DATA, func() {
			p.nest(1, func() { // VETH_INFO_PEER
				p.msg = append(p.msg, ifinfo(peerIndex, 0)...)
				p.attr(unix.IFLA_IFNAME, text(peer)...)
				p.attr32(unix.IFLA_GROUP, group)
				p.attr32(unix.IFLA_NET_NS_FD, uint32(fd))
			})
		})
	})
	p.talk()
}

// mark sets the alias, which is ignored at birth, and brings the link up if it is not.
func (p *plain) mark(index uint32, alias string) {
	p.begin(unix.RTM_SETLINK, 0, ifinfo(index, unix.IFF_UP)...)
	p.attr(unix.IFLA_IFALIAS, []byte(alias)...)
	p.talk()
}

func (p *plain) address(index uint32, bits byte, a [4]byte) {
	p.begin(unix.RTM_NEWADDR, create, unix.AF_INET, bits, 0, 0, byte(index), byte(index>>8), byte(index>>16), 0)
	p.attr(unix.IFA_LOCAL, a[:]...)
	p.attr(unix.IFA_ADDRESS, a[:]...)
	p.talk()
}

func (p *plain) route(index uint32, bits byte, a [4]byte) {
	p.begin(unix.RTM_NEWROUTE, create, unix.AF_INET, bits, 0, 0, unix.RT_TABLE_MAIN, 250, unix.RT_SCOPE_LINK, unix.RTN_UNICAST, 0, 0, 0, 0)
	p.attr(unix.RTA_DST, a[:]...)
	p.attr32(unix.RTA_OIF, index)
	p.talk()
}

func (p *plain) deleteGroup(group uint32) {
	p.begin(unix.RTM_DELLINK, 0, ifinfo(0, 0)...)
	p.attr32(unix.IFLA_GROUP, group)
	p.talk()
}
