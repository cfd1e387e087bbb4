package e2e

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestHostileContainer sends each message by which a container can try to change its host or its
// neighbors, as a frame on the wire, and shows its effect. A block is a network:
//
//	send CONFIG    the network configuration of c1, the hostile container, and of c2
//
// For each message it shows whether the frame arrives at the host or at the neighbor, and what
// changes there.
func TestHostileContainer(t *testing.T) {
	datadriven.RunTest(t, "testdata/hostile", func(t *testing.T, d *datadriven.TestData) string {
		w := newHostile(t, d.Input)
		var b strings.Builder
		for _, m := range w.messages() {
			fmt.Fprintf(&b, "%-32s %s\n", m.name+":", w.effect(m))
		}
		return b.String()
	})
}

var hostileFrames = flag.Int("hostile", 300, "how many frames TestHostileCampaign sends")

// TestHostileCampaign sends random variants of these messages. With the filter of ipspoofchk, the
// routes, addresses and settings of the host and of the neighbor stay unchanged, and no neighbor
// entry is forged.
func TestHostileCampaign(t *testing.T) {
	const network = `{"cniVersion":"1.0.0","name":"blue","type":"plumb-cni","pool":["10.62.0.0/24","fd62::/64"],"ipspoofchk":true}`
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newHostile(t, network)
	before := w.state()
	for range *hostileFrames {
		all := w.messages()
		frame := all[random.IntN(len(all))].frame
		for range random.IntN(4) { // after the MACs of the frame
			frame[12+random.IntN(len(frame)-12)] = byte(random.Uint32())
		}
		w.send(frame)
	}
	w.arrives(w.marker()) // the frames before it have been processed
	if now := w.state(); now != before {
		t.Errorf("seed %d: state before:\n%s\nafter:\n%s", seed, before, now)
	}
}

// hostile is a host with two containers on one network.
type hostile struct {
	t             *testing.T
	h             *host.Host
	c1, c2        *netlinktest.Namespace
	out           int // socket of c1
	onHost, onC2  int // sockets that receive
	mac, gateway  net.HardwareAddr
	other         net.HardwareAddr
	own4, other4  netip.Addr
	own6, other6  netip.Addr
	gate4, gate6  netip.Addr
	serial        uint32
	bridge, hostL string
}

func newHostile(t *testing.T, config string) *hostile {
	h := host.New(t, host.Options{NoEngine: true})
	w := &hostile{t: t, h: h, c1: h.Mount("c1"), c2: h.Mount("c2"), gate4: netip.MustParseAddr("10.62.0.1"), gate6: netip.MustParseAddr("fd62::1")}
	for _, ns := range []*netlinktest.Namespace{h.Own, w.c1, w.c2} {
		for _, s := range []string{"ipv6/conf/default/accept_ra", "ipv6/conf/default/autoconf", "ipv6/conf/default/accept_redirects", "ipv4/conf/default/accept_redirects"} {
			ns.Sysctl(t, s, "1")
		}
		for _, s := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/conf/all/rp_filter", "ipv4/conf/default/rp_filter", "ipv6/conf/all/disable_ipv6", "ipv6/conf/default/accept_dad"} {
			ns.Sysctl(t, s, "0")
		}
		ns.Sysctl(t, "ipv4/conf/all/accept_redirects", "1")
	}
	h.Start()
	for _, c := range []string{"c1", "c2"} {
		if r := call(h, "ADD", c, config); r.Code != 0 {
			t.Fatalf("ADD %s: exit %d\n%s%s", c, r.Code, r.Out, r.Err)
		}
	}
	w.awaitAnnouncements()
	link := func(ns *netlinktest.Namespace, name string) net.HardwareAddr {
		hw, err := net.ParseMAC(ns.Show(t, name)["address"].(string))
		if err != nil {
			t.Fatal(err)
		}
		return hw
	}
	w.mac, w.other = link(w.c1, "eth0"), link(w.c2, "eth0")
	w.own4, w.own6 = addressOf(t, w.c1, "inet"), addressOf(t, w.c1, "inet6")
	w.other4, w.other6 = addressOf(t, w.c2, "inet"), addressOf(t, w.c2, "inet6")
	for _, name := range h.Own.Names(t) {
		if strings.HasPrefix(name, "pb") {
			w.bridge = name
		}
	}
	if w.hostL = w.bridge; w.bridge == "" { // mode routed: the veth peer of c1
		var ifindex string
		for _, l := range w.c1.JSON(t, "link show dev eth0") {
			ifindex = fmt.Sprint(l["link_index"])
		}
		for _, l := range h.Own.JSON(t, "link show") {
			if fmt.Sprint(l["ifindex"]) == ifindex {
				w.hostL = l["ifname"].(string)
			}
		}
	}
	w.gateway = link(h.Own, w.hostL)
	// Otherwise the kernel does not overwrite neighbor entries that were just updated.
	w.c2.Sysctl(t, "ipv4/neigh/eth0/locktime", "0")
	h.Own.Sysctl(t, "ipv4/neigh/"+w.hostL+"/locktime", "0")
	w.out, w.onC2, w.onHost = packets(t, w.c1, "eth0"), packets(t, w.c2, "eth0"), packets(t, h.Own, w.hostL)
	w.meet()
	return w
}

// awaitAnnouncements waits until the addresses have been announced for the last time: a repetition
// corrects a forged neighbor entry. The longest pause between two of them is two seconds.
func (w *hostile) awaitAnnouncements() {
	w.t.Helper()
	var sent string
	var since time.Time
	w.h.Eventually("no address is announced any more", func() error {
		page, err := w.h.HTTP("/metrics")
		if err != nil {
			return err
		}
		if now := sentAnnouncements.FindString(page); now != sent || since.IsZero() {
			sent, since = now, time.Now()
		}
		if time.Since(since) < 2500*time.Millisecond {
			return fmt.Errorf("%s lately", sent)
		}
		return nil
	})
}

var sentAnnouncements = regexp.MustCompile(`(?m)^plumb_announcements_sent_total .*$`)

// meet refreshes the neighbor entries of the host and the neighbor, so that there are entries to
// forge.
func (w *hostile) meet() {
	for _, ns := range []*netlinktest.Namespace{w.h.Own, w.c2} {
		ns.Run(w.t, "ip", "neigh", "flush", "all")
	}
	for _, p := range []struct {
		from *netlinktest.Namespace
		to   netip.Addr
	}{{w.c2, w.gate4}, {w.c2, w.gate6}, {w.h.Own, w.other4}, {w.h.Own, w.other6}} {
		for range 3 { // a ping may fail, also in mode routed
			if ping(p.from, p.to.String()) == nil {
				break
			}
		}
	}
	w.arrives(w.marker()) // the frames before it have been received
}

func addressOf(t *testing.T, ns *netlinktest.Namespace, family string) netip.Addr {
	t.Helper()
	for _, l := range ns.JSON(t, "addr show dev eth0 scope global") {
		for _, a := range l["addr_info"].([]any) {
			if a := a.(map[string]any); a["family"] == family {
				return netip.MustParseAddr(a["local"].(string))
			}
		}
	}
	t.Fatalf("no %s address", family)
	return netip.Addr{}
}

// packets opens a socket for frames on a link of a namespace.
func packets(t *testing.T, ns *netlinktest.Namespace, link string) (fd int) {
	t.Helper()
	ifindex := int(ns.Show(t, link)["ifindex"].(float64))
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		// The thread returns to its namespace. If it ended, an agent that it started would end too.
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			done <- err
			return
		}
		defer unix.Close(home)
		done <- func() error {
			at, err := unix.Open(ns.Path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(at)
			if err := unix.Setns(at, unix.CLONE_NEWNET); err != nil {
				return err
			}
			defer func() {
				if unix.Setns(home, unix.CLONE_NEWNET) == nil {
					runtime.UnlockOSThread()
				}
			}()
			all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
			if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err != nil {
				return err
			}
			limit := unix.NsecToTimeval((50 * time.Millisecond).Nanoseconds())
			return firstOf(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: ifindex}),
				unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// firstOf returns the first error that is not nil.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *hostile) send(frame []byte) {
	w.t.Helper()
	if _, err := unix.Write(w.out, frame); err != nil {
		w.t.Fatalf("send %x: %v", frame, err)
	}
}

// message is a frame that a container sends.
type message struct {
	name  string
	frame []byte
}

// marker returns a frame that every container may send: a broadcast from its own address.
func (w *hostile) marker() []byte {
	w.serial++
	id := binary.BigEndian.AppendUint32([]byte("marker"), w.serial)
	return ether(net.HardwareAddr{255, 255, 255, 255, 255, 255}, w.mac, 0x0800, ip4(w.own4, netip.MustParseAddr("255.255.255.255"), 17, udp(id)))
}

// arrives sends a frame, waits for it at the host, and returns the frames that arrived before it at
// the host and at the neighbor. The neighbor need not receive it: in mode routed and with isolated
// ports it is not on the same link. Its socket then times out.
func (w *hostile) arrives(frame []byte) (host, neighbor [][]byte) {
	w.t.Helper()
	w.send(frame)
	hear := func(fd int) (list [][]byte, marked bool) {
		buf := make([]byte, 2048)
		for range 10_000 {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return list, false
			}
			if string(buf[:n]) == string(frame) {
				return list, true
			}
			list = append(list, append([]byte(nil), buf[:n]...))
		}
		return list, false
	}
	host, marked := hear(w.onHost)
	if !marked {
		w.t.Fatal("the host did not receive a frame that the container may send")
	}
	neighbor, _ = hear(w.onC2)
	return host, neighbor
}

// state returns the state that a container must not change.
func (w *hostile) state() string {
	b := &strings.Builder{}
	for _, at := range []struct {
		name string
		ns   *netlinktest.Namespace
	}{{"host", w.h.Own}, {"neighbor", w.c2}} {
		for _, c := range []string{"-4 route show table all", "-6 route show table all", "-o addr show"} {
			fmt.Fprintf(b, "%s: %s:\n%s", at.name, c, at.ns.Run(w.t, append([]string{"ip"}, strings.Fields(c)...)...))
		}
		for _, who := range []netip.Addr{w.gate4, w.gate6, w.other4, w.other6} {
			for _, n := range at.ns.JSON(w.t, "neigh show to "+who.String()) {
				if n["lladdr"] == w.mac.String() {
					fmt.Fprintf(b, "%s: %s is forged\n", at.name, who)
				}
			}
		}
		link := "eth0"
		if at.name == "host" {
			link = w.hostL
		}
		fmt.Fprintf(b, "%s: settings: %s", at.name, at.ns.Run(w.t, "sh", "-c", "cd /proc/sys/net && cat ipv6/conf/"+link+"/accept_ra ipv6/conf/"+link+"/mtu ipv6/conf/"+link+"/hop_limit"))
	}
	return b.String()
}

// effect sends a message and returns its effects.
func (w *hostile) effect(m message) string {
	w.meet()
	before := w.state()
	w.send(m.frame)
	host, neighbor := w.arrives(w.marker())
	has := func(list [][]byte) string {
		for _, f := range list {
			if string(f) == string(m.frame) {
				return "gets it"
			}
		}
		return "-"
	}
	text := fmt.Sprintf("host %-8s neighbor %-8s", has(host), has(neighbor))
	now := w.state()
	for _, side := range []string{"host", "neighbor"} {
		of := func(state string) (lines []string) {
			for line := range strings.Lines(state) {
				if strings.HasPrefix(line, side+": ") && strings.Contains(line, "forged") {
					lines = append(lines, strings.TrimSpace(strings.NewReplacer(w.other4.String(), "the neighbor", w.other6.String(), "the neighbor", w.gate4.String(), "the gateway", w.gate6.String(), "the gateway").Replace(line)))
				}
			}
			return lines
		}
		was := strings.Join(of(before), ",")
		for _, line := range of(now) {
			if !strings.Contains(was, line) {
				text += ", " + line
			}
		}
	}
	withoutForged := func(state string) string {
		var b strings.Builder
		for line := range strings.Lines(state) {
			if !strings.Contains(line, "forged") {
				b.WriteString(line)
			}
		}
		return b.String()
	}
	if withoutForged(before) != withoutForged(now) {
		text += ", CHANGED routes, addresses or settings"
		w.t.Logf("%s: state before:\n%s\nafter:\n%s", m.name, before, now)
	}
	return strings.TrimRight(text, " ")
}

// messages returns all messages of the test.
func (w *hostile) messages() []message {
	all := net.HardwareAddr{255, 255, 255, 255, 255, 255}
	multi := func(a netip.Addr) net.HardwareAddr {
		b := a.As16()
		return net.HardwareAddr{0x33, 0x33, b[12], b[13], b[14], b[15]}
	}
	link := netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: w.mac[0] ^ 2, 9: w.mac[1], 10: w.mac[2], 11: 0xff, 12: 0xfe, 13: w.mac[3], 14: w.mac[4], 15: w.mac[5]})
	nodes := netip.MustParseAddr("ff02::1")
	six := func(src, dst netip.Addr, to net.HardwareAddr, body []byte) []byte {
		return ether(to, w.mac, 0x86dd, ip6(src, dst, 255, body))
	}
	na := func(who netip.Addr) []byte {
		body := append([]byte{136, 0, 0, 0, 0x20, 0, 0, 0}, who.AsSlice()...)
		return append(append(body, 2, 1), w.mac...)
	}
	ra := []byte{134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0}
	ra = append(ra, 3, 4, 64, 0xc0, 0, 1, 0x51, 0x80, 0, 0, 0x38, 0x40, 0, 0, 0, 0)
	ra = append(ra, netip.MustParseAddr("2001:db8:bad::").AsSlice()...)
	ra = append(append(ra, 1, 1), w.mac...)
	inner4 := ip4(w.other4, netip.MustParseAddr("192.0.2.1"), 17, udp([]byte("x")))
	redirect4 := append([]byte{5, 1, 0, 0}, w.own4.AsSlice()...)
	redirect4 = append(redirect4, inner4...)
	redirect4[2], redirect4[3] = sum(redirect4)
	redirect6 := append([]byte{137, 0, 0, 0, 0, 0, 0, 0}, link.AsSlice()...)
	redirect6 = append(redirect6, netip.MustParseAddr("2001:db8:1::1").AsSlice()...)
	arp := func(op uint16, who netip.Addr, mac net.HardwareAddr, to netip.Addr) []byte {
		b := []byte{0, 1, 8, 0, 6, 4}
		b = binary.BigEndian.AppendUint16(b, op)
		b = append(append(b, mac...), who.AsSlice()...)
		return append(append(b, 255, 255, 255, 255, 255, 255), to.AsSlice()...)
	}
	forgedMAC := net.HardwareAddr{2, 0, 0, 0, 0xba, 0xd0}
	stp := append([]byte{0x42, 0x42, 3, 0, 0, 0, 0, 0}, make([]byte, 31)...)
	return []message{
		{"router advertisement", six(link, nodes, multi(nodes), ra)},
		{"redirect of IPv6", six(link, nodes, multi(nodes), redirect6)},
		{"redirect of IPv4 by the gateway", ether(all, w.mac, 0x0800, ip4(w.gate4, w.other4, 1, redirect4))},
		{"ARP for the gateway", ether(all, w.mac, 0x0806, arp(2, w.gate4, w.mac, w.other4))},
		{"ARP for the neighbor", ether(all, w.mac, 0x0806, arp(2, w.other4, w.mac, w.gate4))},
		{"NDP for the gateway", six(link, nodes, multi(nodes), na(w.gate6))},
		{"NDP for the neighbor", six(link, nodes, multi(nodes), na(w.other6))},
		{"another IPv4 source", ether(w.gateway, w.mac, 0x0800, ip4(netip.MustParseAddr("192.0.2.7"), w.gate4, 17, udp([]byte("forged"))))},
		{"another IPv6 source", ether(w.gateway, w.mac, 0x86dd, ip6udp(netip.MustParseAddr("2001:db8::7"), w.gate6))},
		{"another hardware address", ether(all, forgedMAC, 0x0800, ip4(w.own4, netip.MustParseAddr("255.255.255.255"), 17, udp([]byte("forged"))))},
		{"STP", ether8023(net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0}, w.mac, stp)},
		{"LLDP", ether(net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0xe}, w.mac, 0x88cc, []byte{2, 7, 4, 2, 0, 0, 0, 0, 1, 0, 0})},
		{"IGMP report", ether(net.HardwareAddr{1, 0, 0x5e, 1, 2, 3}, w.mac, 0x0800, ip4(w.own4, netip.MustParseAddr("239.1.2.3"), 2, igmp(0x16, "239.1.2.3")))},
		{"IGMP query", ether(net.HardwareAddr{1, 0, 0x5e, 0, 0, 1}, w.mac, 0x0800, ip4(w.own4, netip.MustParseAddr("224.0.0.1"), 2, igmp(0x11, "0.0.0.0")))},
		{"MLD query", six(link, nodes, multi(nodes), append([]byte{130, 0, 0, 0, 0, 10, 0, 0}, make([]byte, 16)...))},
	}
}

func ether(to, from net.HardwareAddr, typ uint16, body []byte) []byte {
	b := append(append([]byte{}, to...), from...)
	return append(binary.BigEndian.AppendUint16(b, typ), body...)
}

func ether8023(to, from net.HardwareAddr, body []byte) []byte {
	return ether(to, from, uint16(len(body)), body)
}

func udp(body []byte) []byte {
	b := []byte{0, 9, 0, 9}
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(body)))
	return append(append(b, 0, 0), body...)
}

func igmp(typ byte, group string) []byte {
	b := append([]byte{typ, 10, 0, 0}, netip.MustParseAddr(group).AsSlice()...)
	b[2], b[3] = sum(b)
	return b
}

func ip4(from, to netip.Addr, proto byte, body []byte) []byte {
	b := []byte{0x45, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(20+len(body)))
	b = append(b, 0, 1, 0, 0, 64, proto, 0, 0)
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	b[10], b[11] = sum(b)
	return append(b, body...)
}

// ip6 returns an ICMPv6 packet with its checksum.
func ip6(from, to netip.Addr, hops byte, body []byte) []byte {
	pseudo := append(append(append([]byte{}, from.AsSlice()...), to.AsSlice()...), 0, 0, byte(len(body)>>8), byte(len(body)), 0, 0, 0, 58)
	body = append([]byte{}, body...)
	body[2], body[3] = sum(append(pseudo, body...))
	return header6(from, to, 58, hops, body)
}

func ip6udp(from, to netip.Addr) []byte {
	body := udp([]byte("forged"))
	pseudo := append(append(append([]byte{}, from.AsSlice()...), to.AsSlice()...), 0, 0, byte(len(body)>>8), byte(len(body)), 0, 0, 0, 17)
	body[6], body[7] = sum(append(pseudo, body...))
	return header6(from, to, 17, 64, body)
}

func header6(from, to netip.Addr, proto, hops byte, body []byte) []byte {
	b := []byte{0x60, 0, 0, 0, byte(len(body) >> 8), byte(len(body)), proto, hops}
	return append(append(append(b, from.AsSlice()...), to.AsSlice()...), body...)
}

// sum returns the Internet checksum.
func sum(b []byte) (byte, byte) {
	var s uint32
	for i, v := range b {
		if i%2 == 0 {
			s += uint32(v) << 8
		} else {
			s += uint32(v)
		}
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return byte(^s >> 8), byte(^s)
}
