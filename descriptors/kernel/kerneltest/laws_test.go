package kerneltest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// TestLaws plays each story on the kernel in memory and on that of the host: both have to come
// out as it is written. Who writes one does it with
//
//	go test ./descriptors/kernel/kerneltest -run TestLaws/.*/linux -rewrite
func TestLaws(t *testing.T) {
	datadriven.Walk(t, "testdata/laws", func(t *testing.T, path string) {
		t.Run("memory", func(t *testing.T) { onMemory(t, path, kerneltest.Options{}) })
		t.Run("linux", func(t *testing.T) { onLinux(t, path) })
	})
}

// TestLawsOfDebian does so with stories of what the kernel of the host may lack: Linux is that
// of Debian, on which tests/kernels plays them. Who writes one does it with
//
//	go test ./tests/kernels -run TestBackports -package descriptors/kernel/kerneltest -tests TestLawsOfDebian/.*/linux -rewrite
func TestLawsOfDebian(t *testing.T) {
	datadriven.Walk(t, "testdata/debian", func(t *testing.T, path string) {
		t.Run("memory", func(t *testing.T) { onMemory(t, path, kerneltest.Options{}) })
		if hosttest.OnDebian() {
			t.Run("linux", func(t *testing.T) { onLinux(t, path) })
		}
	})
}

// TestLocalRoutes: of the routes in table local the kernel lists those of addresses, and reports the
// deletion of one.
func TestLocalRoutes(t *testing.T) {
	for _, name := range []string{"memory", "linux"} {
		t.Run(name, func(t *testing.T) {
			var k kernel.Kernel = kerneltest.New(kerneltest.Options{})
			remove := func(command string) error { return kerneltest.IP(k, k.Own(), "ip "+command) }
			if name == "linux" {
				own := netlinktest.New(t)
				k = linuxOf(t, own)
				remove = func(command string) error { own.IP(t, command); return nil }
			}
			do := func(command string) {
				t.Helper()
				if err := kerneltest.IP(k, k.Own(), command); err != nil {
					t.Fatalf("%s: %v", command, err)
				}
			}
			for _, command := range []string{"link add name a type bridge", "link set a up", "addr add 10.0.0.1/24 dev a", "addr add 10.0.0.2/24 dev a", "addr add fd00::1/64 dev a nodad"} {
				do("ip " + command)
			}
			link, err := k.Link(k.Own(), "a")
			if err != nil {
				t.Fatal(err)
			}
			local := func(want string) {
				t.Helper()
				is := ""
				for range 100 {
					list, err := k.AddressRoutes(k.Own(), link.Index)
					if err != nil {
						t.Fatal(err)
					}
					var lines []string
					for _, r := range list {
						if r.OfAddress() && !r.Dst.Addr().IsLinkLocalUnicast() {
							lines = append(lines, fmt.Sprintln(r.Dst, r.Table, r.Scope, r.Src))
						}
					}
					slices.Sort(lines)
					if is = strings.Join(lines, ""); is == want {
						return
					}
					time.Sleep(10 * time.Millisecond) // see addrconf_dad_work in net/ipv6/addrconf.c
				}
				t.Fatalf("there are\n%s\nwant\n%s", is, want)
			}
			one, two, six := "10.0.0.1/32 255 host 10.0.0.1\n", "10.0.0.2/32 255 host 10.0.0.1\n", "fd00::1/128 255 global invalid IP\n"
			local(one + two + six)
			all, err := k.Routes(k.Own())
			if err != nil || slices.ContainsFunc(all, kernel.Route.OfAddress) {
				t.Fatalf("%v, %v", all, err)
			}
			heard := make(chan string, 10)
			ctx, cancel := context.WithCancel(t.Context())
			ready, done := make(chan struct{}), make(chan error, 1)
			go func() {
				done <- k.Watch(ctx, func(ev kernel.Event) {
					switch {
					case ev.Ready:
						close(ready)
					case ev.Route != nil && ev.Route.OfAddress():
						heard <- fmt.Sprint(ev.Route.Dst, ev.Deleted)
					}
				})
			}()
			<-ready
			for _, command := range []string{"route del local 10.0.0.2 dev a table 255", "route del local fd00::1 dev a table 255"} {
				if err := remove(command); err != nil {
					t.Fatalf("%s: %v", command, err)
				}
			}
			local(one)
			for _, want := range []string{"10.0.0.2/32 true", "fd00::1/128 true"} {
				if is := <-heard; is != want {
					t.Errorf("%s is told, want %s", is, want)
				}
			}
			again := kernel.Route{
				Dst: netip.MustParsePrefix("10.0.0.2/32"), Table: kernel.TableLocal, Protocol: kernel.ProtocolKernel, Type: "local", Scope: "host",
				Src: netip.MustParseAddr("10.0.0.1"), Index: link.Index,
			}
			if err := k.AddAddressRoute(k.Own(), again); err != nil {
				t.Fatal(err)
			}
			if err := k.AddAddressRoute(k.Own(), again); !errors.Is(err, kernel.ErrExist) {
				t.Errorf("once more: %v", err)
			}
			do("ip addr del fd00::1/64 dev a")
			do("ip addr add fd00::1/64 dev a nodad")
			local(one + two + six)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func onMemory(t *testing.T, path string, o kerneltest.Options) {
	k := kerneltest.New(o)
	play(t, path, k, func(*datadriven.TestData) string { return k.String() })
}

func onLinux(t *testing.T, path string) {
	k := linux(t)
	play(t, path, k, func(d *datadriven.TestData) string { return shown(t, k, d.Expected) })
}

func linux(t *testing.T) *netlink.Kernel {
	t.Helper()
	return linuxOf(t, netlinktest.New(t))
}

func linuxOf(t *testing.T, own *netlinktest.Namespace) *netlink.Kernel {
	t.Helper()
	own.Defaults(t)
	k, err := netlink.New(netlink.Options{OwnPath: own.Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// play does what a story says. Of each command that fails it is told how.
func play(t *testing.T, path string, k kernel.Kernel, show func(*datadriven.TestData) string) {
	log := listen(t, k)
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "do":
			var b strings.Builder
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSpace(line)
				if err := kerneltest.IP(k, k.Own(), line); err != nil {
					fmt.Fprintf(&b, "%s: %s\n", line, reason(err))
				}
			}
			return b.String()
		case "show":
			return show(d)
		case "told":
			return log.since(t, d.Expected)
		case "accept":
			return accept(t, d, k)
		case "accepts":
			return accepts(t, k)
		case "hardware":
			return hardware(t, k)
		}
		t.Fatalf("unknown command %q", d.Cmd)
		return ""
	})
}

// accept makes a cable of two ends, or changes a link, with what it is to accept.
func accept(t *testing.T, d *datadriven.TestData, k kernel.Kernel) string {
	all := func(n int) kernel.AcceptSpec {
		return kernel.AcceptSpec{RA: &n, Autoconf: &n, Redirects6: &n, Redirects4: &n, AllRedirects4: &n}
	}
	none, one := all(0), all(1)
	words := strings.Fields(d.Input)
	var err error
	switch words[0] {
	case "add":
		_, err = k.AddLink(k.Own(), kernel.LinkSpec{Name: words[1], Up: true, Accepts: none, Veth: &kernel.VethSpec{PeerName: words[2], PeerUp: true, PeerAccepts: none}})
	case "all":
		l, wrong := k.Link(k.Own(), words[1])
		if err = wrong; err == nil {
			err = k.SetLink(k.Own(), l.Index, kernel.LinkPatch{Accepts: one})
		}
	default:
		d.Fatalf(t, "unknown line %q", d.Input)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	return ""
}

// accepts shows what each link accepts, whether it is up, and the setting for all.
func accepts(t *testing.T, k kernel.Kernel) string {
	links, err := k.Links(k.Own())
	if err != nil {
		t.Fatal(err)
	}
	text := func(n *int) string {
		if n == nil {
			return "none"
		}
		return fmt.Sprint(*n)
	}
	var b strings.Builder
	for _, l := range links {
		if l.Name == "lo" {
			continue
		}
		a := l.Accepts
		fmt.Fprintf(&b, "%s up %t: ra %s, autoconf %s, redirects of IPv6 %s, of IPv4 %s\n", l.Name, l.Up, text(a.RA), text(a.Autoconf), text(a.Redirects6), text(a.Redirects4))
	}
	all, err := k.Sysctl(k.Own(), "net/ipv4/conf/all/accept_redirects")
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + "all: redirects of IPv4 " + all + "\n"
}

// hardware are the hardware addresses that the story gave to links.
func hardware(t *testing.T, k kernel.Kernel) string {
	links, err := k.Links(k.Own())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, l := range links {
		mac := "of its own"
		if strings.HasPrefix(l.MAC, "02:00:00:00:00:") {
			mac = l.MAC
		}
		fmt.Fprintf(&b, "%s %s\n", l.Name, mac)
	}
	return b.String()
}

// reason is the number of an error, as a word, and the sentinel that stands for it.
func reason(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	for _, s := range []error{kernel.ErrExist, kernel.ErrNotExist, kernel.ErrDown, kernel.ErrUnsupported} {
		if errors.Is(err, s) {
			return fmt.Sprintf("%v (%v)", errno, s)
		}
	}
	return errno.Error()
}

const patience = 20 * time.Second

// shown waits until the kernel shows what is expected: much of it does a moment later. When
// that is to be written it gets some time.
func shown(t *testing.T, k kernel.Kernel, want string) (got string) {
	t.Helper()
	limit := patience
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		limit = 3 * time.Second
		want = ""
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var err error
		if got, err = kerneltest.Text(k); err != nil {
			t.Fatal(err)
		}
		if got == want {
			break
		}
	}
	return got
}

// events are what was told of the own namespace.
type events struct {
	k    kernel.Kernel
	mu   sync.Mutex
	list []string
	last map[string]string // of each link, what was told of it last
	name map[int]string
	// tables is the last generation of tables that was told.
	tables uint32
}

func (e *events) generation() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tables
}

func listen(t *testing.T, k kernel.Kernel) *events {
	e := &events{k: k, last: map[string]string{}, name: map[int]string{1: "lo"}}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- k.Watch(ctx, func(ev kernel.Event) {
			if ev.Ready {
				close(ready)
			} else if ev.NS == k.Own() {
				e.heard(ev)
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-ready
	return e
}

// heard notes an event. That a link is as it was said to be is no news.
func (e *events) heard(ev kernel.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	gone := ""
	if ev.Deleted {
		gone = " gone"
	}
	switch {
	case ev.Link != nil:
		e.name[ev.Link.Index] = ev.Link.Name
		state := map[bool]string{true: "up", false: "down"}[ev.Link.Up]
		if ev.Link.Master != 0 {
			state += " in " + e.name[ev.Link.Master]
		}
		if ev.Deleted {
			state = "gone"
		}
		if e.last[ev.Link.Name] != state {
			e.last[ev.Link.Name] = state
			e.list = append(e.list, fmt.Sprintf("link %s %s", ev.Link.Name, state))
		}
	case ev.Address != nil && ev.Address.Prefix.Addr().Is6() && !ev.Deleted: // told some time later
	case ev.Address != nil:
		e.list = append(e.list, fmt.Sprintf("address %s on %s%s", ev.Address.Prefix, e.name[ev.Address.Index], gone))
	case ev.Route != nil && ev.Route.OfAddress() && ev.Route.Table == kernel.TableLocal: // see TestLocalRoutes
	case ev.Route != nil:
		e.list = append(e.list, fmt.Sprintf("route %s on %s%s", ev.Route.Dst, e.name[ev.Route.Index], gone))
	case ev.Neighbor != nil:
		e.list = append(e.list, fmt.Sprintf("neighbor %s on %s%s", ev.Neighbor.Address, e.name[ev.Neighbor.Index], gone))
	case ev.Nexthop != nil:
		e.list = append(e.list, fmt.Sprintf("nexthop %d%s", ev.Nexthop.ID, gone))
	case ev.Tables != nil:
		e.tables = ev.Tables.Generation
	case ev.Qdisc != nil:
		e.list = append(e.list, fmt.Sprintf("qdisc %s %x: on %s%s", ev.Qdisc.Kind, ev.Qdisc.Handle, e.name[ev.Qdisc.Index], gone))
	case ev.Filter != nil:
		e.list = append(e.list, fmt.Sprintf("filter %d on %s to %s%s", ev.Filter.Pref, e.name[ev.Filter.Index], e.name[ev.Filter.To], gone))
	case ev.Rule != nil && ev.Rule.Priority != fence:
		e.list = append(e.list, fmt.Sprintf("rule %d%s", ev.Rule.Priority, gone))
	case ev.Rule != nil:
		e.list = append(e.list, "fence"+gone)
	}
}

const fence = 4711

// since is what was told since it was last asked: a rule comes and goes, and what was done
// before was told before.
func (e *events) since(t *testing.T, _ string) string {
	t.Helper()
	r := kernel.Rule{Priority: fence, Table: fence, Action: "lookup"}
	if err := errors.Join(e.k.AddRule(e.k.Own(), r), e.k.DeleteRule(e.k.Own(), r)); err != nil {
		t.Fatal(err)
	}
	var told []string
	netlinktest.Eventually(t, "all is told", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		at := slices.Index(e.list, "fence gone")
		if at < 0 {
			return false
		}
		told, e.list = e.list[:at], slices.Clone(e.list[at+1:])
		return true
	})
	told = slices.DeleteFunc(told, func(line string) bool { return line == "fence" })
	return strings.Join(append(told, ""), "\n")
}

// TestFallbacks does so with what tunnels bring into every namespace, where the machine lets
// them; that of tests/kernels does not otherwise.
func TestFallbacks(t *testing.T) {
	const setting = "/proc/sys/net/core/fb_tunnels_only_for_init_net"
	datadriven.Walk(t, "testdata/fallbacks", func(t *testing.T, path string) {
		t.Run("memory", func(t *testing.T) { onMemory(t, path, kerneltest.Options{Fallbacks: true}) })
		if !hosttest.OnDebian() {
			return
		}
		t.Run("linux", func(t *testing.T) {
			was, err := os.ReadFile(setting)
			if err == nil {
				err = os.WriteFile(setting, []byte("0"), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.WriteFile(setting, was, 0) }()
			onLinux(t, path)
		})
	})
}
