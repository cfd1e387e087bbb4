package netlink_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// plain is a program that knows what it wants and does nothing else: raw
// messages on a raw socket, no checks, no translation. It is the floor of the
// benchmarks.
type plain struct {
	t   testing.TB
	fd  int
	seq uint32
	msg []byte
	buf []byte
}

func newPlain(t testing.TB, n *netlinktest.Namespace) *plain {
	t.Helper()
	p := &plain{t: t, msg: make([]byte, 0, 512), buf: make([]byte, 64<<10)}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends here
		ns, err := os.Open(n.Path)
		if err == nil {
			defer ns.Close()
			if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
				p.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(p.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(p.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *plain) close() { unix.Close(p.fd) }

var order = binary.NativeEndian

func (p *plain) begin(typ, flags uint16, header ...byte) {
	p.msg = append(p.msg[:0], make([]byte, 16)...)
	order.PutUint16(p.msg[4:], typ)
	order.PutUint16(p.msg[6:], flags|unix.NLM_F_REQUEST)
	p.msg = append(p.msg, header...)
}

func (p *plain) attr(typ uint16, v []byte) {
	p.msg = order.AppendUint16(p.msg, uint16(4+len(v)))
	p.msg = order.AppendUint16(p.msg, typ)
	p.msg = append(p.msg, v...)
	for len(p.msg)%4 != 0 {
		p.msg = append(p.msg, 0)
	}
}

func (p *plain) attr32(typ uint16, v uint32) {
	var b [4]byte
	order.PutUint32(b[:], v)
	p.attr(typ, b[:])
}

func (p *plain) nest(typ uint16, f func()) {
	at := len(p.msg)
	p.attr(typ|unix.NLA_F_NESTED, nil)
	f()
	order.PutUint16(p.msg[at:], uint16(len(p.msg)-at))
}

// talk sends the message and reads until it is answered; it returns the index
// in the first message of the answer and how many messages there were.
func (p *plain) talk() (index uint32, count int) {
	p.seq++
	order.PutUint32(p.msg, uint32(len(p.msg)))
	order.PutUint32(p.msg[8:], p.seq)
	if _, err := unix.Write(p.fd, p.msg); err != nil {
		p.t.Fatal(err)
	}
	for {
		n, err := unix.Read(p.fd, p.buf)
		if err != nil {
			p.t.Fatal(err)
		}
		for b := p.buf[:n]; len(b) >= 16; {
			size, typ := order.Uint32(b), order.Uint16(b[4:])
			switch typ {
			case unix.NLMSG_DONE:
				return index, count
			case unix.NLMSG_ERROR:
				if e := int32(order.Uint32(b[16:])); e != 0 {
					p.t.Fatalf("plain program: %v", unix.Errno(-e))
				}
				return index, count
			}
			if count == 0 {
				index = order.Uint32(b[20:])
			}
			count++
			b = b[min(int(size+3)&^3, len(b)):]
		}
	}
}

func ifinfo(index, flags uint32) []byte {
	b := make([]byte, 16)
	order.PutUint32(b[4:], index)
	order.PutUint32(b[8:], flags)
	order.PutUint32(b[12:], flags)
	return b
}

func zero(s string) []byte { return append([]byte(s), 0) }

// veth does in the kernel what AddLink does for a veth in place.
func (p *plain) veth(name, peer, alias string, group, master uint32, mac []byte, ns int) uint32 {
	p.begin(unix.RTM_NEWLINK, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ECHO, ifinfo(0, unix.IFF_UP)...)
	p.attr(unix.IFLA_IFNAME, zero(name))
	p.attr32(unix.IFLA_MTU, 1400)
	p.attr32(unix.IFLA_GROUP, group)
	p.attr(unix.IFLA_ADDRESS, mac)
	if master != 0 {
		p.attr32(unix.IFLA_MASTER, master)
	}
	p.nest(unix.IFLA_LINKINFO, func() {
		p.attr(unix.IFLA_INFO_KIND, []byte("veth"))
		p.nest(unix.IFLA_INFO_DATA, func() {
			p.nest(1, func() {
				p.msg = append(p.msg, ifinfo(0, 0)...)
				p.attr(unix.IFLA_IFNAME, zero(peer))
				p.attr32(unix.IFLA_MTU, 1400)
				p.attr32(unix.IFLA_GROUP, group)
				p.attr32(unix.IFLA_NET_NS_FD, uint32(ns))
			})
		})
	})
	index, _ := p.talk()
	p.alias(index, alias)
	return index
}

func (p *plain) alias(index uint32, alias string) {
	p.begin(unix.RTM_SETLINK, unix.NLM_F_ACK, ifinfo(index, 0)...)
	p.attr(unix.IFLA_IFALIAS, []byte(alias))
	p.talk()
}

func (p *plain) deleteGroup(group uint32) {
	p.begin(unix.RTM_DELLINK, unix.NLM_F_ACK, ifinfo(0, 0)...)
	p.attr32(unix.IFLA_GROUP, group)
	p.talk()
}

func (p *plain) address(index uint32, a [4]byte) {
	p.begin(unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, unix.AF_INET, 32, 0, 0, byte(index), byte(index>>8), byte(index>>16), 0)
	p.attr(unix.IFA_LOCAL, a[:])
	p.attr(unix.IFA_ADDRESS, a[:])
	p.talk()
}

func (p *plain) route(index uint32, a [4]byte) {
	p.begin(unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		unix.AF_INET, 32, 0, 0, unix.RT_TABLE_MAIN, ours, unix.RT_SCOPE_LINK, unix.RTN_UNICAST, 0, 0, 0, 0)
	p.attr(unix.RTA_DST, a[:])
	p.attr32(unix.RTA_OIF, index)
	p.talk()
}

func (p *plain) links() int {
	p.begin(unix.RTM_GETLINK, unix.NLM_F_DUMP, ifinfo(0, 0)...)
	p.attr32(unix.IFLA_EXT_MASK, 1<<3)
	_, n := p.talk()
	return n
}

func ip4(base byte, i int) [4]byte { return [4]byte{base, byte(i >> 16), byte(i >> 8), byte(i)} }

func vethName(side string, i int) string { return fmt.Sprintf("%s%d", side, i) }
