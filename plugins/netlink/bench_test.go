package netlink_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	vish "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// A benchmark does the same work by the port and by the plain program of
// floor_test.go, turn and turn about, and prints the median of both and their
// ratio. One op is one round of all the objects that its name tells.
//
//	go test -run '^$' -bench . -benchtime 15x ./plugins/netlink

// versus times rounds of both and reports them per object.
func versus(b *testing.B, objects int, port, plain func(round int) time.Duration) {
	b.Helper()
	var ours, floor []time.Duration
	for round := range b.N {
		if round%2 == 0 {
			ours = append(ours, port(2*round))
			floor = append(floor, plain(2*round+1))
		} else {
			floor = append(floor, plain(2*round+1))
			ours = append(ours, port(2*round))
		}
	}
	o, f := median(ours), median(floor)
	b.ReportMetric(float64(o)/1e3/float64(objects), "µs/each")
	b.ReportMetric(float64(f)/1e3/float64(objects), "floor-µs/each")
	b.ReportMetric(float64(o)/float64(f), "×floor")
	b.ReportMetric(0, "ns/op")
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

const wave = 500

// setting is what the benchmarks of veths work on: a bridge in the own
// namespace, and a namespace for the peers that is new in every round.
type setting struct {
	*bench
	master int
	here   *plain
}

func newSetting(b *testing.B) *setting {
	k := newKernel(b, netlink.Options{})
	s := &setting{bench: k, here: newPlain(b, k.own)}
	b.Cleanup(s.here.close)
	s.master = s.add(b, s.Own(), kernel.LinkSpec{Name: "br0", Up: true, Bridge: &kernel.BridgeSpec{}}).Index
	return s
}

// peers runs f with a fresh namespace and waits until its end took its links.
func (s *setting) peers(b *testing.B, f func(n *netlinktest.Namespace, ns kernel.NS, fd int)) {
	b.Helper()
	p := netlinktest.Start(b)
	ns, err := s.Open(p.Path)
	if err != nil {
		b.Fatal(err)
	}
	file, err := os.Open(p.Path)
	if err != nil {
		b.Fatal(err)
	}
	f(&p.Namespace, ns, int(file.Fd()))
	file.Close()
	p.Kill()
	netlinktest.Eventually(b, "the links are gone", func() bool {
		list, err := s.Links(s.Own())
		return err == nil && len(list) == 2
	})
}

var portMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0}

func macOf(i int) net.HardwareAddr {
	mac := slices.Clone(portMAC)
	mac[4], mac[5] = byte(i>>8), byte(i)
	return mac
}

func (s *setting) spec(i int, ns kernel.NS) kernel.LinkSpec {
	return kernel.LinkSpec{Name: vethName("v", i), Alias: "plumb:bench:interface/" + vethName("v", i), Group: 7, MTU: 1400,
		MAC: macOf(i).String(), Up: true, Master: s.master,
		Veth: &kernel.VethSpec{PeerNS: ns, PeerName: vethName("p", i), PeerMTU: 1400, PeerGroup: 7}}
}

func (s *setting) plainVeth(i, fd int) uint32 {
	return s.here.veth(vethName("v", i), vethName("p", i), "plumb:bench:interface/"+vethName("v", i), 7, uint32(s.master), macOf(i), fd)
}

// 500 veth pairs in place: up, in a bridge, with alias, MTU, MAC and group, the
// peer in another namespace, and an address.
func BenchmarkVethInPlace(b *testing.B) {
	s := newSetting(b)
	versus(b, wave, func(int) (d time.Duration) {
		s.peers(b, func(_ *netlinktest.Namespace, ns kernel.NS, _ int) {
			start := time.Now()
			for i := range wave {
				l := s.add(b, s.Own(), s.spec(i, ns))
				if err := s.AddAddress(s.Own(), kernel.Address{Index: l.Index, Prefix: netip.PrefixFrom(netip.AddrFrom4(ip4(10, i)), 32)}); err != nil {
					b.Fatal(err)
				}
			}
			d = time.Since(start)
		})
		return d
	}, func(int) (d time.Duration) {
		s.peers(b, func(_ *netlinktest.Namespace, _ kernel.NS, fd int) {
			start := time.Now()
			for i := range wave {
				s.here.address(s.plainVeth(i, fd), ip4(10, i))
			}
			d = time.Since(start)
		})
		return d
	})
}

// The same by the client library, which cannot give group, alias and master at
// birth, against the plain program.
func BenchmarkVethByLibrary(b *testing.B) {
	s := newSetting(b)
	file, err := netns.GetFromPath(s.own.Path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	h, err := vish.NewHandleAt(file, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	versus(b, wave, func(int) (d time.Duration) {
		s.peers(b, func(_ *netlinktest.Namespace, _ kernel.NS, fd int) {
			start := time.Now()
			for i := range wave {
				at := vish.NewLinkAttrs()
				at.Name, at.MTU, at.Group, at.MasterIndex, at.HardwareAddr, at.Flags = vethName("v", i), 1400, 7, s.master, macOf(i), net.FlagUp
				err := h.LinkAdd(&vish.Veth{LinkAttrs: at, PeerName: vethName("p", i), PeerNamespace: vish.NsFd(fd)})
				if err != nil {
					b.Fatal(err)
				}
				l, err := h.LinkByName(at.Name)
				if err != nil {
					b.Fatal(err)
				}
				if err := h.LinkSetAlias(l, "plumb:bench:interface/"+at.Name); err != nil {
					b.Fatal(err)
				}
				a := ip4(10, i)
				if err := h.AddrAdd(l, &vish.Addr{IPNet: &net.IPNet{IP: a[:], Mask: net.CIDRMask(32, 32)}}); err != nil {
					b.Fatal(err)
				}
			}
			d = time.Since(start)
		})
		return d
	}, func(int) (d time.Duration) {
		s.peers(b, func(_ *netlinktest.Namespace, _ kernel.NS, fd int) {
			start := time.Now()
			for i := range wave {
				s.here.address(s.plainVeth(i, fd), ip4(10, i))
			}
			d = time.Since(start)
		})
		return d
	})
}

// 500 veth pairs away again: ours finds out first whether it may.
func BenchmarkDeleteLinks(b *testing.B) {
	s := newSetting(b)
	make500 := func(fd int) (indexes []int) {
		for i := range wave {
			indexes = append(indexes, int(s.plainVeth(i, fd)))
		}
		return indexes
	}
	versus(b, wave, func(int) (d time.Duration) {
		s.peers(b, func(_ *netlinktest.Namespace, _ kernel.NS, fd int) {
			indexes := make500(fd)
			start := time.Now()
			if err := s.DeleteLinks(s.Own(), indexed(indexes...)); err != nil {
				b.Fatal(err)
			}
			d = time.Since(start)
		})
		return d
	}, func(int) (d time.Duration) {
		s.peers(b, func(_ *netlinktest.Namespace, _ kernel.NS, fd int) {
			make500(fd)
			start := time.Now()
			s.here.deleteGroup(7)
			d = time.Since(start)
		})
		return d
	})
}

func BenchmarkAddAddress(b *testing.B) {
	k := newKernel(b, netlink.Options{})
	p := newPlain(b, k.own)
	defer p.close()
	fresh, done := bridges(b, k)
	versus(b, wave, func(round int) time.Duration {
		index := fresh(round)
		start := time.Now()
		for i := range wave {
			if err := k.AddAddress(k.Own(), kernel.Address{Index: index, Prefix: netip.PrefixFrom(netip.AddrFrom4(ip4(10, i)), 32)}); err != nil {
				b.Fatal(err)
			}
		}
		d := time.Since(start)
		done(index)
		return d
	}, func(round int) time.Duration {
		index := fresh(round)
		start := time.Now()
		for i := range wave {
			p.address(uint32(index), ip4(10, i))
		}
		d := time.Since(start)
		done(index)
		return d
	})
}

func BenchmarkAddRoute(b *testing.B) {
	k := newKernel(b, netlink.Options{})
	p := newPlain(b, k.own)
	defer p.close()
	fresh, done := bridges(b, k)
	versus(b, wave, func(round int) time.Duration {
		index := fresh(round)
		start := time.Now()
		for i := range wave {
			if err := k.AddRoute(k.Own(), kernel.Route{Dst: netip.PrefixFrom(netip.AddrFrom4(ip4(10, i)), 32), Index: index, Protocol: ours}); err != nil {
				b.Fatal(err)
			}
		}
		d := time.Since(start)
		done(index)
		return d
	}, func(round int) time.Duration {
		index := fresh(round)
		start := time.Now()
		for i := range wave {
			p.route(uint32(index), ip4(10, i))
		}
		d := time.Since(start)
		done(index)
		return d
	})
}

// bridges make and remove what a round of addresses or routes stands on.
func bridges(b *testing.B, k *bench) (fresh func(round int) int, done func(index int)) {
	return func(round int) int {
			return k.add(b, k.Own(), kernel.LinkSpec{Name: fmt.Sprintf("br%d", round), Up: true, Bridge: &kernel.BridgeSpec{}}).Index
		}, func(index int) {
			if err := k.DeleteLink(k.Own(), index); err != nil {
				b.Fatal(err)
			}
		}
}

// A dump of 1000 veths, translated, against one that only counts messages.
func BenchmarkLinks(b *testing.B) {
	k := newKernel(b, netlink.Options{})
	p := newPlain(b, k.own)
	defer p.close()
	for i := range wave {
		k.add(b, k.Own(), kernel.LinkSpec{Name: vethName("v", i), Alias: "plumb:bench:interface/" + vethName("v", i), Veth: &kernel.VethSpec{PeerName: vethName("p", i)}})
	}
	versus(b, 2*wave, func(int) time.Duration {
		start := time.Now()
		if list, err := k.Links(k.Own()); err != nil || len(list) != 2*wave+1 {
			b.Fatal(len(list), err)
		}
		return time.Since(start)
	}, func(int) time.Duration {
		start := time.Now()
		if n := p.links(); n != 2*wave+1 {
			b.Fatal(n)
		}
		return time.Since(start)
	})
}

// From the begin of a change to its event, and from its return.
func BenchmarkEventLatency(b *testing.B) {
	k := newKernel(b, netlink.Options{})
	w := watch(b, k)
	l := k.add(b, k.Own(), kernel.LinkSpec{Name: "br0", Up: true, Bridge: &kernel.BridgeSpec{}})
	var whole, after []time.Duration
	for i := range max(b.N, 1000) {
		a := kernel.Address{Index: l.Index, Prefix: netip.PrefixFrom(netip.AddrFrom4(ip4(10, i)), 32)}
		w.mu.Lock()
		w.events = w.events[:0]
		w.mu.Unlock()
		start := time.Now()
		if err := k.AddAddress(k.Own(), a); err != nil {
			b.Fatal(err)
		}
		returned := time.Now()
		w.until(b, "the address", func(ev kernel.Event) bool { return ev.Address != nil && ev.Address.Prefix == a.Prefix })
		whole = append(whole, time.Since(start))
		after = append(after, time.Since(returned))
	}
	b.ReportMetric(float64(median(whole))/1e3, "µs")
	b.ReportMetric(float64(whole[len(whole)*99/100])/1e3, "p99-µs")
	b.ReportMetric(float64(median(after))/1e3, "after-return-µs")
	b.ReportMetric(0, "ns/op")
}

// What is done with namespaces themselves, beside the bare system calls: to open one,
// to enter and leave it on a thread of the pool, and to make one with a name and remove
// it again.
func BenchmarkNamespaces(b *testing.B) {
	const each = 100
	b.Run("open", func(b *testing.B) {
		k := newKernel(b, netlink.Options{})
		var paths []string
		for range each {
			paths = append(paths, netlinktest.New(b).Path)
		}
		nobody := func(kernel.NS) bool { return false }
		versus(b, each, func(int) time.Duration {
			took := timed(b, paths, func(path string) error { _, err := k.Open(path); return err })
			for k.CloseUnused(nobody) > 0 {
			}
			return took
		}, func(int) time.Duration {
			var open []int
			took := timed(b, paths, func(path string) error {
				fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
				open = append(open, fd)
				return err
			})
			for _, fd := range open {
				unix.Close(fd)
			}
			return took
		})
	})
	b.Run("enter", func(b *testing.B) {
		k := newKernel(b, netlink.Options{})
		ns, n := k.open(b)
		there, home := openBare(b, n.Path), openBare(b, "/proc/self/ns/net")
		times := make([]string, each)
		versus(b, each, func(int) time.Duration {
			return timed(b, times, func(string) error { return k.Within(ns, 0, func() error { return nil }) })
		}, func(int) time.Duration {
			took := make(chan time.Duration)
			go func() {
				runtime.LockOSThread() // the thread ends here
				took <- timed(b, times, func(string) error {
					return errors.Join(unix.Setns(there, unix.CLONE_NEWNET), unix.Setns(home, unix.CLONE_NEWNET))
				})
			}()
			return <-took
		})
	})
	b.Run("named", func(b *testing.B) {
		dir := netlinktest.Dir(b)
		k := newKernel(b, netlink.Options{NamedDir: dir})
		var names []string
		for i := range each / 10 {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		if _, err := k.CreateNamed("first"); err != nil { // which prepares the directory
			b.Fatal(err)
		}
		home := openBare(b, "/proc/self/ns/net")
		versus(b, len(names), func(int) time.Duration {
			return timed(b, names, func(name string) error {
				_, err := k.CreateNamed(name)
				return errors.Join(err, k.DeleteNamed(name))
			})
		}, func(int) time.Duration {
			took := make(chan time.Duration)
			go func() {
				runtime.LockOSThread() // the thread ends here
				took <- timed(b, names, func(name string) error {
					path := filepath.Join(dir, name)
					return errors.Join(os.WriteFile(path, nil, 0o400), unix.Unshare(unix.CLONE_NEWNET),
						unix.Mount("/proc/thread-self/ns/net", path, "none", unix.MS_BIND, ""), unix.Setns(home, unix.CLONE_NEWNET),
						unix.Unmount(path, unix.MNT_DETACH), os.Remove(path))
				})
			}()
			return <-took
		})
	})
}

// openBare opens a file until the benchmark ends.
func openBare(b *testing.B, path string) int {
	b.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(fd) })
	return fd
}

// timed is how long it takes to do all of a list.
func timed(b *testing.B, list []string, do func(string) error) time.Duration {
	start := time.Now()
	for _, item := range list {
		if err := do(item); err != nil {
			b.Error(err)
		}
	}
	return time.Since(start)
}
