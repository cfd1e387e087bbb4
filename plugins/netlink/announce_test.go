package netlink_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// network is a bridge of the own namespace with the links of two hosts, of which b announces
// and a has heard of b before.
type network struct {
	*bench
	a, b   kernel.NS
	hostA  *netlinktest.Namespace
	hostB  *netlinktest.Namespace
	linkB  kernel.Link
	onCord kernel.Link // the port of the bridge
}

func newNetwork(t *testing.T) *network {
	n := &network{bench: newKernel(t, netlink.Options{})}
	n.add(t, n.Own(), kernel.LinkSpec{Name: "br0", Up: true, Bridge: &kernel.BridgeSpec{}})
	n.a, n.hostA = n.open(t)
	n.b, n.hostB = n.open(t)
	n.connect(t, n.a, "a")
	n.onCord, n.linkB = n.connect(t, n.b, "b")
	n.hostA.IP(t, "addr add 10.0.0.1/24 dev eth0")
	n.hostA.IP(t, "addr add fd00::1/64 dev eth0 nodad")
	return n
}

// connect puts a link into a host, and its other end into the bridge.
func (n *network) connect(t *testing.T, ns kernel.NS, name string) (port, eth0 kernel.Link) {
	t.Helper()
	br, err := n.Link(n.Own(), "br0")
	if err != nil {
		t.Fatal(err)
	}
	port = n.add(t, n.Own(), kernel.LinkSpec{Name: name, Up: true, Master: br.Index, Veth: &kernel.VethSpec{PeerNS: ns, PeerName: "eth0", PeerUp: true}})
	if eth0, err = n.Link(ns, "eth0"); err != nil {
		t.Fatal(err)
	}
	return port, eth0
}

func at(index int, addr string) kernel.Announcement {
	return kernel.Announcement{Index: index, Address: netip.MustParseAddr(addr)}
}

// mac is what a host knows of an address.
func mac(t *testing.T, host *netlinktest.Namespace, addr string) string {
	t.Helper()
	words := strings.Fields(host.Run(t, "ip", "neigh", "show", addr))
	if i := slices.Index(words, "lladdr"); i >= 0 {
		return words[i+1]
	}
	return ""
}

// TestAnnounce: an announcement corrects what neighbours know, in both families, at once after
// the link was made.
func TestAnnounce(t *testing.T) {
	n := newNetwork(t)
	const old = "02:00:00:00:00:99"
	for _, addr := range []string{"10.0.0.2", "fd00::2"} {
		n.hostA.IP(t, "neigh add "+addr+" lladdr "+old+" dev eth0 nud reachable")
	}
	if err := n.DeleteLink(n.Own(), n.onCord.Index); err != nil {
		t.Fatal(err)
	}
	_, eth0 := n.connect(t, n.b, "again") // its carrier is still to come
	n.hostB.IP(t, "addr add fd00::2/64 dev eth0 nodad")
	for _, addr := range []string{"10.0.0.2", "fd00::2"} {
		a := at(eth0.Index, addr)
		if err := n.Announce(n.b, []kernel.Announcement{a})[0]; err != nil {
			t.Fatal(err)
		}
		if got := mac(t, n.hostA, addr); got != eth0.MAC {
			t.Errorf("%s is at %s for its neighbour, want %s", addr, got, eth0.MAC)
		}
	}
}

// TestAnnounceWritesNothing: an announcement is no change.
func TestAnnounceWritesNothing(t *testing.T) {
	n := newNetwork(t)
	before := n.Writes()
	if err := n.Announce(n.b, []kernel.Announcement{at(n.linkB.Index, "10.0.0.2")})[0]; err != nil {
		t.Fatal(err)
	}
	if now := n.Writes(); now != before {
		t.Errorf("%d writes", now-before)
	}
}

// TestAnnounceBehindBlockedPort: while the port at the other end does not forward the link is
// down for announcements, though it runs.
func TestAnnounceBehindBlockedPort(t *testing.T) {
	n := newNetwork(t)
	a := []kernel.Announcement{at(n.linkB.Index, "10.0.0.2")}
	if err := n.Announce(n.b, a)[0]; err != nil {
		t.Fatal(err)
	}
	n.own.Run(t, "bridge", "link", "set", "dev", "b", "state", "1") // listening
	if err := n.Announce(n.b, a)[0]; !errors.Is(err, kernel.ErrDown) {
		t.Errorf("behind a port that listens: %v", err)
	}
	n.own.Run(t, "bridge", "link", "set", "dev", "b", "state", "3")
	if err := n.Announce(n.b, a)[0]; err != nil {
		t.Errorf("behind a port that forwards: %v", err)
	}
}

// TestAnnounceMany: what cannot be announced does not keep the others from it.
func TestAnnounceMany(t *testing.T) {
	n := newNetwork(t)
	down := n.add(t, n.b, kernel.LinkSpec{Name: "down", Bridge: &kernel.BridgeSpec{}})
	const addr = "10.0.0.2"
	errs := n.Announce(n.b, []kernel.Announcement{at(4711, addr), at(-1, addr), at(1, addr), at(down.Index, addr), at(n.linkB.Index, addr)})
	for i, want := range []error{kernel.ErrNotExist, kernel.ErrNotExist, kernel.ErrUnsupported, kernel.ErrDown, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("%d: %v, want %v", i, errs[i], want)
		}
	}
	if err := n.Announce(1, []kernel.Announcement{at(1, addr)})[0]; !errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("in no namespace: %v", err)
	}
}

// TestAnnouncementFrames checks the frames against what the kernel of a neighbour may not mind,
// as others do: checksum, hop limit, and the flag of routers.
func TestAnnouncementFrames(t *testing.T) {
	n := newNetwork(t)
	n.hostB.IP(t, "addr add fd00::2/64 dev eth0 nodad")
	n.hostB.Sysctl(t, "ipv6/conf/eth0/forwarding", "0")
	frames := listenOn(t, n.bench, "b")
	list := []kernel.Announcement{at(n.linkB.Index, "10.0.0.2"), at(n.linkB.Index, "fd00::2")}
	if err := errors.Join(n.Announce(n.b, list)...); err != nil {
		t.Fatal(err)
	}
	hw, _ := net.ParseMAC(n.linkB.MAC)
	four, six := list[0].Address.As4(), list[1].Address.As16()
	arp := func(operation byte, target []byte) []byte {
		return slices.Concat([]byte{255, 255, 255, 255, 255, 255}, hw, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, operation}, hw, four[:], target, four[:])
	}
	frames.expect(t, arp(1, make([]byte, 6)))
	frames.expect(t, advertisement(hw, six, 0x20))
	reply := list[0]
	reply.Reply = true
	if err := n.Announce(n.b, []kernel.Announcement{reply})[0]; err != nil {
		t.Fatal(err)
	}
	frames.expect(t, arp(2, hw))
	if err := n.SetSysctl(n.b, "net/ipv6/conf/eth0/forwarding", "1"); err != nil {
		t.Fatal(err)
	}
	if err := n.Announce(n.b, list[1:])[0]; err != nil {
		t.Fatal(err)
	}
	frames.expect(t, advertisement(hw, six, 0xa0))
}

// advertisement is the frame of a neighbour advertisement, with its checksum by the definition.
func advertisement(hw []byte, six [16]byte, flags byte) []byte {
	to := netip.MustParseAddr("ff02::1").As16()
	icmp := slices.Concat([]byte{136, 0, 0, 0, flags, 0, 0, 0}, six[:], []byte{2, 1}, hw)
	sum := 0
	for pair := range slices.Chunk(slices.Concat(six[:], to[:], []byte{0, 0, 0, byte(len(icmp)), 0, 0, 0, 58}, icmp), 2) {
		sum += int(pair[0])<<8 + int(pair[1])
	}
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(icmp[2:], ^uint16(sum))
	ip := slices.Concat([]byte{0x60, 0, 0, 0, 0, byte(len(icmp)), 58, 255}, six[:], to[:])
	return slices.Concat([]byte{0x33, 0x33, 0, 0, 0, 1}, hw, []byte{0x86, 0xdd}, ip, icmp)
}

// frames is a packet socket that hears what comes by a link.
type frames struct{ fd int }

func listenOn(t *testing.T, b *bench, link string) *frames {
	t.Helper()
	f := &frames{}
	err := b.Within(b.Own(), 0, func() error {
		l, err := net.InterfaceByName(link)
		if err != nil {
			return err
		}
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
		if f.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return err
		}
		limit := unix.NsecToTimeval(int64(10 * time.Second))
		return errors.Join(unix.SetsockoptTimeval(f.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
			unix.Bind(f.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Index}))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(f.fd) })
	return f
}

// expect reads frames until that one comes.
func (f *frames) expect(t *testing.T, want []byte) {
	t.Helper()
	var seen []string
	buf := make([]byte, 2048)
	for {
		size, _, err := unix.Recvfrom(f.fd, buf, 0)
		if err != nil {
			t.Fatalf("%v: no frame\n%x, but\n%s", err, want, strings.Join(seen, "\n"))
		}
		if bytes.Equal(buf[:size], want) {
			return
		}
		seen = append(seen, fmt.Sprintf("%x", buf[:size]))
	}
}
