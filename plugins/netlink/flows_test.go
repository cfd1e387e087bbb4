package netlink

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// track creates connections of UDP in the own namespace of a kernel.
func track(t testing.TB, k *Kernel, flows []kernel.Flow) {
	t.Helper()
	const newFlow, ctaTimeout = unix.NFNL_SUBSYS_CTNETLINK << 8, 7
	n, err := k.enter(k.Own())
	if err != nil {
		t.Fatal(err)
	}
	defer n.leave()
	var c *conn
	if err := n.within(func() (err error) { c, err = dial(unix.NETLINK_NETFILTER); return err }); err != nil {
		t.Fatal(err)
	}
	defer c.close()
	buf := make([]byte, bufferSize)
	for some := range slices.Chunk(flows, 100) {
		var ms []*message
		for _, f := range some {
			m := newMessage(newFlow, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
			m.nfgen(map[bool]uint8{true: unix.AF_INET, false: unix.AF_INET6}[f.Original.Source.Addr().Is4()])
			m.tuple(ctaTupleOrig, f.Protocol, f.Original)
			m.tuple(ctaTupleReply, f.Protocol, f.Reply)
			m.be32(ctaTimeout, 3600)
			ms = append(ms, m)
		}
		errs, err := c.batch(ms, buf, nil)
		for _, one := range append(errs, err) {
			if one != nil {
				t.Fatal(one)
			}
		}
	}
}

// flowsOf returns n connections to a port of a server, of which each client has 100.
func flowsOf(n int, client, server netip.Addr) (flows []kernel.Flow) {
	for i := range n {
		if i%100 == 0 {
			client = client.Next()
		}
		f := kernel.Flow{Protocol: unix.IPPROTO_UDP, Original: kernel.Tuple{
			Source: netip.AddrPortFrom(client, uint16(10000+i%100)), Destination: netip.AddrPortFrom(server, uint16(53+i%10))}}
		f.Reply = kernel.Tuple{Source: f.Original.Destination, Destination: f.Original.Source}
		flows = append(flows, f)
	}
	return flows
}

// TestFilteredFlows: the kernel lists exactly the connections like a pattern, and those like two
// patterns are deleted once. Counts beyond filterWorth have it use the filters.
func TestFilteredFlows(t *testing.T) {
	addr, port := netip.MustParseAddr, netip.MustParseAddrPort
	for _, total := range []int{300, 2*filterWorth + 300} {
		k := newTestKernel(t)
		flows := append(flowsOf(total, addr("10.0.0.0"), addr("192.0.2.1")), flowsOf(300, addr("fd00::"), addr("fd01::1"))...)
		track(t, k, flows)
		udp := func(to string) kernel.Flow {
			return kernel.Flow{Protocol: unix.IPPROTO_UDP, Original: kernel.Tuple{Destination: port(to)}}
		}
		for _, like := range [][]kernel.Flow{
			{udp("0.0.0.0:53")}, {udp("[::]:54")}, {udp("192.0.2.1:55"), udp("0.0.0.0:55")}, {udp("192.0.2.2:56")},
			kernel.WithAddress(addr("10.0.0.2")), kernel.WithAddress(addr("fd00::2")),
			{{Original: kernel.Tuple{Source: port("10.0.0.3:10007")}}}, {{Protocol: unix.IPPROTO_TCP, Original: kernel.Tuple{Source: port("0.0.0.0:0")}}},
		} {
			left := slices.DeleteFunc(slices.Clone(flows), func(f kernel.Flow) bool { return f.LikeAny(like) })
			deleted, err := k.DeleteFlows(k.Own(), func(kernel.Flow) bool { return true }, like...)
			var now int
			if _, failed := k.DeleteFlows(k.Own(), func(f kernel.Flow) bool {
				now++
				if f.LikeAny(like) {
					t.Errorf("%v is left, which is like one of %v", f, like)
				}
				return false
			}); err != nil || failed != nil || deleted != len(flows)-len(left) || now != len(left) {
				t.Fatalf("%v: %d deleted and %d left of %d, want %d left: %v, %v", like, deleted, now, len(flows), len(left), err, failed)
			}
			flows = left
		}
	}
}

// A port of UDP, or the addresses of a container, of 50,000 connections. The floor lists all.
func BenchmarkFilteredFlows(b *testing.B) {
	k, err := New(Options{OwnPath: netlinktest.New(b).Path, NamedDir: netlinktest.Dir(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { k.Close() })
	track(b, k, flowsOf(50000, netip.MustParseAddr("10.0.0.0"), netip.MustParseAddr("192.0.2.1")))
	four := kernel.WithAddress(netip.MustParseAddr("10.9.0.1"))
	for _, c := range []struct {
		name string
		like []kernel.Flow
	}{
		{"Port", []kernel.Flow{{Protocol: unix.IPPROTO_UDP, Original: kernel.Tuple{Destination: netip.MustParseAddrPort("0.0.0.0:9")}}}},
		{"Address", four},
		{"Addresses", append(kernel.WithAddress(netip.MustParseAddr("fd00::9")), four...)},
	} {
		b.Run(c.name, func(b *testing.B) {
			took := func(like ...kernel.Flow) time.Duration {
				start := time.Now()
				if _, err := k.DeleteFlows(k.Own(), func(f kernel.Flow) bool { return f.LikeAny(c.like) }, like...); err != nil {
					b.Fatal(err)
				}
				return time.Since(start)
			}
			var ours, floor time.Duration
			for range b.N {
				ours += took(c.like...)
				floor += took()
			}
			b.ReportMetric(float64(ours.Microseconds())/1e3/float64(b.N), "ms/op")
			b.ReportMetric(float64(floor.Microseconds())/1e3/float64(b.N), "floor-ms/op")
			b.ReportMetric(float64(ours)/float64(floor), "×floor")
			b.ReportMetric(0, "ns/op")
			if ratio := float64(ours) / float64(floor); ratio > 0.9 {
				b.Errorf("a filtered listing takes %s of the time of a listing of all", fmt.Sprintf("%.0f%%", 100*ratio))
			}
		})
	}
}
