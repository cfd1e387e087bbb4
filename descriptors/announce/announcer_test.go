package announce_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/descriptors/announce"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an announcer on an in-memory kernel, in the fake time of the test.
type bench struct {
	*kerneltest.Kernel
	*announce.Announcer
	began time.Time

	mu      sync.Mutex
	sent    []string
	replies []bool // for each announcement, whether it was a reply
}

// on runs a test with an announcer that stops when the test returns.
func on(t *testing.T, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{began: time.Now()}
		b.Kernel = kerneltest.New(kerneltest.Options{Announced: b.heard})
		b.Announcer = announce.New(b.Kernel, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		synctest.Wait()
		test(t, b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) heard(ns kernel.NS, a kernel.Announcement, mac string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replies = append(b.replies, a.Reply)
	b.sent = append(b.sent, fmt.Sprintf("%s %d %s %s", time.Since(b.began).Round(time.Millisecond), a.Index, a.Address, mac[len(mac)-2:]))
}

func (b *bench) do(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if err := kerneltest.IP(b.Kernel, b.Own(), c); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
	}
	synctest.Wait()
}

// at returns a reference to an address of the link with this index.
func (b *bench) at(index int, p string) kernel.AddressRef {
	return kernel.AddressRef{LinkRef: kernel.LinkRef{NS: b.Own(), Index: index}, Prefix: netip.MustParsePrefix(p)}
}

// expect compares the announcements since the previous call.
func (b *bench) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.sent, want) {
		t.Errorf("announced\n%s\nwant\n%s", strings.Join(b.sent, "\n"), strings.Join(want, "\n"))
	}
	b.sent = nil
}

var cable = []string{
	"ip link add a address 02:00:00:00:00:01 type veth peer name b", // 3, and 2 at its other end
	"ip link set b address 02:00:00:00:00:02",
}

func (b *bench) index(t *testing.T, name string) int {
	t.Helper()
	l, err := b.Link(b.Own(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l.Index
}

// TestRepetitions: an address is announced at once, and twice more while it exists.
func TestRepetitions(t *testing.T) {
	on(t, func(t *testing.T, b *bench) {
		b.do(t, append(cable, "ip link set a up", "ip link set b up", "ip addr add 10.0.0.1/24 dev a", "ip addr add fd00::1/64 dev a", "ip addr add 10.0.0.2/24 dev a")...)
		a := b.index(t, "a")
		b.Added(b.at(a, "10.0.0.1/24"), b.at(a, "fd00::1/64"), b.at(a, "10.0.0.2/24"))
		at := func(seconds int, addr string) string { return fmt.Sprintf("%ds %d %s 01", seconds, a, addr) }
		b.expect(t, at(0, "10.0.0.1"), at(0, "10.0.0.2"), at(0, "fd00::1"))
		b.do(t, "ip addr del 10.0.0.2/24 dev a") // by another process
		time.Sleep(1500 * time.Millisecond)
		b.expect(t, at(1, "10.0.0.1"), at(1, "fd00::1"))
		b.Removed(b.at(a, "fd00::1/64"))
		time.Sleep(time.Minute)
		b.expect(t, at(3, "10.0.0.1"))
		if f := b.Figures(); f != (announce.Figures{Sent: 6}) {
			t.Errorf("%+v", f)
		}
	})
}

// TestCrowd: many addresses are announced at once, but repeated in small batches, and some are
// repeated only once.
func TestCrowd(t *testing.T) {
	on(t, func(t *testing.T, b *bench) {
		b.do(t, append(cable, "ip link set a up", "ip link set b up")...)
		a := b.index(t, "a")
		var all []kernel.AddressRef
		for i := range 100 {
			p := fmt.Sprintf("10.0.0.%d/24", i+1)
			b.do(t, "ip addr add "+p+" dev a")
			all = append(all, b.at(a, p))
		}
		b.Added(all...)
		time.Sleep(time.Minute)
		synctest.Wait()
		times, count := map[string]int{}, map[string]int{} // by time, and by address
		for _, line := range b.sent {
			words := strings.Fields(line)
			times[words[0]]++
			count[words[2]]++
		}
		if times["0s"] != len(all) {
			t.Errorf("%d addresses are announced at once, want all", times["0s"])
		}
		delete(times, "0s")
		for at, n := range times {
			if n > 16 {
				t.Errorf("%d repetitions at %s, want at most 16", n, at)
			}
		}
		of := map[int]int{}
		for _, n := range count {
			of[n]++
		}
		if len(count) != len(all) || of[2] < 30 || of[3] == 0 || of[2]+of[3] != len(all) {
			t.Errorf("addresses by number of announcements: %v", of)
		}
		if f := b.Figures(); f != (announce.Figures{Sent: uint64(len(b.sent))}) {
			t.Errorf("%+v", f)
		}
	})
}

// TestForms: every second announcement is a reply.
func TestForms(t *testing.T) {
	on(t, func(t *testing.T, b *bench) {
		b.do(t, append(cable, "ip link set a up", "ip link set b up", "ip addr add 10.0.0.1/24 dev a")...)
		b.Added(b.at(b.index(t, "a"), "10.0.0.1/24"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []bool{false, true, false}; !slices.Equal(b.replies, want) {
			t.Errorf("replies %v, want %v", b.replies, want)
		}
	})
}

// TestCarrier: without a carrier an announcement waits for one.
func TestCarrier(t *testing.T) {
	on(t, func(t *testing.T, b *bench) {
		b.do(t, append(cable, "ip link set a up", "ip addr add 10.0.0.1/24 dev a")...)
		a := b.index(t, "a")
		b.Added(b.at(a, "10.0.0.1/24"))
		time.Sleep(time.Hour)
		b.expect(t)
		if f := b.Figures(); f.Waiting != 1 {
			t.Errorf("%+v", f)
		}
		b.do(t, "ip link set b up")
		b.expect(t, fmt.Sprintf("1h0m0s %d 10.0.0.1 01", a))
		time.Sleep(time.Minute)
		b.expect(t, fmt.Sprintf("1h0m1s %d 10.0.0.1 01", a), fmt.Sprintf("1h0m3s %d 10.0.0.1 01", a))
	})
}

// TestCarrierOfALostLink: a waiting announcement ends when its link or address is deleted.
func TestCarrierOfALostLink(t *testing.T) {
	on(t, func(t *testing.T, b *bench) {
		b.do(t, append(cable, "ip link set a up", "ip addr add 10.0.0.1/24 dev a", "ip addr add 10.0.0.2/24 dev a")...)
		a := b.index(t, "a")
		b.Added(b.at(a, "10.0.0.1/24"), b.at(a, "10.0.0.2/24"))
		b.do(t, "ip addr del 10.0.0.2/24 dev a", "ip link del a")
		if f := b.Figures(); f.Waiting != 0 {
			t.Errorf("%+v", f)
		}
		b.do(t, append(cable, "ip link set a up", "ip link set b up", "ip addr add 10.0.0.1/24 dev a")...)
		time.Sleep(time.Hour)
		b.expect(t)
	})
}

// TestMACChanged: all addresses of a link are announced when its MAC changes. The first MAC that
// is recorded, as at a start, is not a change.
func TestMACChanged(t *testing.T) {
	on(t, func(t *testing.T, b *bench) {
		b.do(t, append(cable, "ip link set a up", "ip link set b up", "ip addr add 10.0.0.1/24 dev a")...)
		a := b.index(t, "a")
		l, err := b.LinkByIndex(b.Own(), a)
		if err != nil {
			t.Fatal(err)
		}
		b.Saw(l)
		time.Sleep(time.Minute)
		b.expect(t)
		b.do(t, "ip link set a address 02:00:00:00:00:07")
		time.Sleep(10 * time.Millisecond)
		b.expect(t, fmt.Sprintf("1m0s %d 10.0.0.1 07", a), fmt.Sprintf("1m0s %d fe80::ff:fe00:1 07", a))
	})
}

// TestFailedAnnouncement: an announcement that fails is counted, and repeated.
func TestFailedAnnouncement(t *testing.T) {
	on(t, func(t *testing.T, b *bench) {
		b.do(t, append(cable, "ip link set a up", "ip link set b up", "ip addr add 10.0.0.1/24 dev a")...)
		b.Fail("Announce", 1, syscall.EPERM)
		a := b.index(t, "a")
		b.Added(b.at(a, "10.0.0.1/24"))
		time.Sleep(time.Minute)
		b.expect(t, fmt.Sprintf("1s %d 10.0.0.1 01", a), fmt.Sprintf("3s %d 10.0.0.1 01", a))
		if f := b.Figures(); f != (announce.Figures{Sent: 2, Failed: 1}) {
			t.Errorf("%+v", f)
		}
	})
}

// TestNoRoom: an announcement for which the kernel has no buffer space is retried after 50 ms.
func TestNoRoom(t *testing.T) {
	on(t, func(t *testing.T, b *bench) {
		b.do(t, append(cable, "ip link set a up", "ip link set b up", "ip addr add 10.0.0.1/24 dev a")...)
		b.Fail("Announce", 1, syscall.ENOBUFS)
		a := b.index(t, "a")
		b.Added(b.at(a, "10.0.0.1/24"))
		time.Sleep(time.Minute)
		b.expect(t, fmt.Sprintf("50ms %d 10.0.0.1 01", a), fmt.Sprintf("1.05s %d 10.0.0.1 01", a), fmt.Sprintf("3.05s %d 10.0.0.1 01", a))
		if f := b.Figures(); f != (announce.Figures{Sent: 3}) {
			t.Errorf("%+v", f)
		}
	})
}

// TestNoAnnouncer: the methods of a nil announcer do nothing.
func TestNoAnnouncer(t *testing.T) {
	var none *announce.Announcer
	none.Added(kernel.AddressRef{})
	none.Removed(kernel.AddressRef{})
	none.Saw(kernel.Link{})
	none.SetUp(kernel.Link{})
	none.Moved(kernel.Link{})
	if f := none.Figures(); f != (announce.Figures{}) {
		t.Errorf("%+v", f)
	}
}
