package proxy

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhoHasThePort: lines of the kernel's tables of sockets, and which address they are in
// the way of.
func TestWhoHasThePort(t *testing.T) {
	const (
		listens   = "   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0"
		connected = "   1: 0100007F:0050 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 0 0 10 -1"
		all       = "   2: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0"
		mapped    = "   3: 0000000000000000FFFF00000200007F:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4714 1 0 100 0 0 10 0"
		everyone4 = "   5: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4716 1 0 100 0 0 10 0"
		loopback6 = "   6: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4717 1 0 100 0 0 10 0"
		datagrams = "  4: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4715 2 0 0"
	)
	for _, c := range []struct{ line, protocol, address, inode string }{
		{listens, "tcp", "127.0.0.1:80", "4711"}, {listens, "tcp", "0.0.0.0:80", "4711"}, {listens, "tcp", "[::]:80", "4711"},
		{listens, "tcp", "127.0.0.2:80", ""}, {listens, "tcp", "127.0.0.1:81", ""}, {connected, "tcp", "127.0.0.1:80", ""},
		{all, "tcp", "127.0.0.1:80", "4713"}, {mapped, "tcp", "127.0.0.2:80", "4714"}, {mapped, "tcp", "127.0.0.1:80", ""},
		{listens, "tcp", "[::1]:80", ""}, {everyone4, "tcp", "[::1]:80", ""}, {everyone4, "tcp", "192.0.2.1:80", "4716"}, {all, "tcp", "[::1]:80", "4713"},
		{loopback6, "tcp", "0.0.0.0:80", ""}, {loopback6, "tcp", "[::]:80", "4717"},
		{datagrams, "udp", "127.0.0.1:53", "4715"}, {"", "udp", "127.0.0.1:53", ""},
		{"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", "udp", "127.0.0.1:53", ""},
	} {
		if got := inodeOf(c.line, c.protocol, netip.MustParseAddrPort(c.address)); got != c.inode {
			t.Errorf("%s of %q: %q, want %q", c.address, c.line, got, c.inode)
		}
	}
}

// TestListener: a socket that takes connections or datagrams of anybody is found with its
// process; one with a peer is not in the way.
func TestListener(t *testing.T) {
	me := processName(os.Getpid())
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	connected, err := net.Dial("udp", udp.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	every := func(a net.Addr) netip.AddrPort {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), netip.MustParseAddrPort(a.String()).Port())
	}
	for _, c := range []struct {
		protocol string
		at       net.Addr
		want     string
	}{{"tcp", tcp.Addr(), me}, {"udp", udp.LocalAddr(), me}, {"udp", connected.LocalAddr(), ""}, {"sctp", tcp.Addr(), ""}} {
		if got := Listener(c.protocol, every(c.at)); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.protocol, c.at, got, c.want)
		}
	}
}

// FuzzParse: whatever the kernel or somebody else writes, nothing but an answer comes of it.
func FuzzParse(f *testing.F) {
	f.Add("   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711", unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte{127, 0, 0, 1}}))
	f.Add("0:1 :", unix.PktInfo6(&unix.Inet6Pktinfo{Addr: [16]byte{0xfe, 0x80}, Ifindex: 3}))
	f.Fuzz(func(t *testing.T, line string, oob []byte) {
		_ = inodeOf(line, "tcp", netip.MustParseAddrPort("0.0.0.0:80"))
		at, ok := parseProc(line)
		if ok && !at.IsValid() {
			t.Errorf("%q is %v", line, at)
		}
		to, reply := destination(oob)
		if reply != nil && !to.IsValid() {
			t.Errorf("%x has no address and %x", oob, reply)
		}
	})
}
