package proxy_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/descriptors/proxy"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	plugin "github.com/plumb-net/plumb/plugins/proxy"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

func TestMain(m *testing.M) {
	plugin.Main()
	goleak.VerifyTestMain(m)
}

// bench is the kind with processes, or in memory with what stands for them, in the agent's own
// namespace and in blue, and a stand-in for what finds namespaces.
type bench struct {
	*hosttest.Host
	linux  *netlink.Kernel    // nil in memory,
	memory *kerneltest.Kernel // and nil on Linux

	t        *testing.T
	dir      string
	blueNS   kernel.NS
	bluePath string
	ledger   *kernel.MemLedger
	proxies  kernel.Proxies
	poll     chan time.Time
	fail     string
	kind     scheduler.Descriptor[*models.Proxy, kernel.ProxyProcess]
}

type scope = scheduler.Scope[*models.Proxy, kernel.ProxyProcess]

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	t.Helper()
	b := &bench{Host: h, t: t, dir: t.TempDir(), ledger: &kernel.MemLedger{}, poll: make(chan time.Time)}
	b.linux, _ = h.Kernel.(*netlink.Kernel)
	b.memory, _ = h.Kernel.(*kerneltest.Kernel)
	b.blueNS, b.bluePath = h.Named(t, "blue")
	for _, ns := range []kernel.NS{h.Own(), b.blueNS} {
		h.Do(t, ns, "ip link set lo up")
	}
	b.restart()
	t.Cleanup(func() {
		for _, p := range b.running() {
			_ = b.proxies.StopProxy(context.Background(), p)
		}
		b.letGo()
	})
	return b
}

// label is that of no other test on this machine: marks are seen by all.
var label = fmt.Sprintf("kind-%d", os.Getpid())

var errCrash = errors.New("crash")

// restart is a new agent: what it knows is in the ledger, and in the processes.
func (b *bench) restart() {
	owner := kernel.NewOwner(label, "boot", b.ledger, func(name string) error {
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.letGo()
	if b.memory != nil {
		b.proxies = b.memory.Proxies()
	} else {
		b.proxies = plugin.New(b.linux, plugin.Options{Dir: filepath.Join(b.dir, "proxies")})
	}
	b.kind = proxy.New(proxy.Deps{Kernel: b.Kernel, Proxies: b.proxies, Owner: owner, Places: b, Poll: b.poll})
}

// letGo lets go of the processes, which go on.
func (b *bench) letGo() {
	if p, ok := b.proxies.(*plugin.Proxies); ok {
		p.Close()
	}
}

func (b *bench) Resolve(_ context.Context, in *models.Namespace) (selector.Place, error) {
	if in.GetIn() == nil {
		return selector.Place{NS: b.Own()}, nil
	}
	return selector.Place{NS: b.blueNS, Path: b.bluePath}, nil
}

// running are the processes of this test.
func (b *bench) running() (mine []kernel.ProxyProcess) {
	all, err := b.proxies.MarkedProxies()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range all {
		if b.memory != nil || strings.HasPrefix(p.Control, b.dir) {
			mine = append(mine, p)
		}
	}
	return mine
}

// value is a value; DIR stands for the directory of the test.
func (b *bench) value(text string) *models.Proxy {
	b.t.Helper()
	v := decode(b.t, strings.ReplaceAll(text, "DIR", b.dir))[0]
	if err := b.kind.Validate("proxy/web", v); err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bench) create(key scheduler.Key, text string) (kernel.ProxyProcess, error) {
	b.t.Helper()
	return b.kind.Create(b.t.Context(), key, b.value(text))
}

func (b *bench) must(key scheduler.Key, text string) kernel.ProxyProcess {
	b.t.Helper()
	p, err := b.create(key, text)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// reads is what is found, as text.
func (b *bench) reads(s scope) string {
	b.t.Helper()
	var all []string
	for f, err := range b.kind.Retrieve(b.t.Context(), s) {
		text := fmt.Sprintf("%s %v", f.Key, err)
		if err == nil {
			text = fmt.Sprintf("%s %s", f.Key, models.Encode(f.Value))
		}
		all = append(all, strings.ReplaceAll(text, b.dir, "DIR"))
	}
	return strings.Join(all, "\n")
}

func (b *bench) found(key scheduler.Key) (f scheduler.Found[*models.Proxy, kernel.ProxyProcess]) {
	b.t.Helper()
	for found, err := range b.kind.Retrieve(b.t.Context(), scope{Keys: []scheduler.Key{key}}) {
		if err != nil {
			b.t.Fatal(err)
		}
		f = found
	}
	return f
}

// TestConform holds the kind to the contract of descriptors, with real processes and in memory.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	sample := func(name string, values ...string) schedulertest.Sample[*models.Proxy] {
		s := schedulertest.Sample[*models.Proxy]{Key: scheduler.Key(models.ProxyKey(name))}
		for _, v := range values {
			s.Values = append(s.Values, b.value(v))
		}
		return s
	}
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.Proxy, kernel.ProxyProcess]{
		Samples: []schedulertest.Sample[*models.Proxy]{
			sample("web", `{"listen":{"address":"127.0.0.1:80"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:80"}}`,
				`{"listen":{"address":"127.0.0.1:80"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:81"},"max_sessions":7}`,
				`{"listen":{"address":"127.0.0.1:80"},"forward":{"address":"@web"}}`),
			sample("dns", `{"listen":{"namespace":{"netns":"blue"},"protocol":"udp","address":"[::]:53"},"forward":{"address":"127.0.0.1:53"}}`,
				`{"listen":{"namespace":{"netns":"blue"},"protocol":"udp","address":"[::]:53"},"forward":{"address":"127.0.0.1:53"},"idle_timeout":5}`),
			sample("file", `{"listen":{"address":"DIR/web"},"forward":{"address":"127.0.0.1:80"}}`,
				`{"listen":{"address":"DIR/web","mode":"0660"},"forward":{"address":"127.0.0.1:80"}}`),
		},
		Refused: map[scheduler.Key]*models.Proxy{"proxy/bad": {}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Proxy, kernel.ProxyProcess] {
			b.restart()
			return b.kind
		},
		Foreign: func(t testing.TB, _ scheduler.Key, v *models.Proxy) func() bool {
			return b.foreign(t, v)
		},
		Remove: func(t testing.TB, k scheduler.Key) {
			for _, p := range b.running() {
				if p.Mark == "plumb:"+label+":"+string(k) {
					b.remove(t, p)
				}
			}
		},
		Clone:     proto.CloneOf[*models.Proxy],
		Identical: func(x, y *models.Proxy) bool { return proto.Equal(x, y) },
	})
}

// remove ends a process and removes its file, as somebody else does.
func (b *bench) remove(t testing.TB, p kernel.ProxyProcess) {
	t.Helper()
	if b.memory != nil {
		b.memory.KillProxies(p.Mark)
		b.memory.RemoveFile(p.File.Path)
		return
	}
	kill(t, p)
	if p.File.Path != "" {
		_ = os.Remove(p.File.Path)
	}
	netlinktest.Eventually(t, "it has ended", func() bool { return syscall.Kill(p.PID, 0) != nil })
}

func kill(t testing.TB, p kernel.ProxyProcess) {
	t.Helper()
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// foreign is somebody else who listens where a proxy should.
func (b *bench) foreign(t testing.TB, v *models.Proxy) (stands func() bool) {
	t.Helper()
	end := kernel.ProxyEnd{NS: b.Own(), Protocol: v.GetListen().EffectiveProtocol(), Address: v.GetListen().GetAddress()}
	switch {
	case v.GetListen().File() != "":
		end.NS = 0
	case v.GetListen().GetNamespace() != nil:
		end.NS = b.blueNS
	}
	if b.memory != nil {
		stop, err := b.memory.Listen(end, "somebody else")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		return func() bool {
			stop, err := b.memory.Listen(end, "another")
			if err == nil {
				stop()
			}
			return err != nil && len(b.running()) == 0
		}
	}
	var held io.Closer
	err := b.linux.Within(cmp.Or(end.NS, b.Own()), 0, func() (err error) {
		if end.Protocol == "udp" {
			held, err = net.ListenPacket(end.Protocol, end.Address)
		} else {
			held, err = net.Listen(end.Protocol, end.Address)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	return func() bool {
		if end.NS != 0 {
			return len(b.running()) == 0
		}
		_, err := os.Lstat(end.Address)
		return err == nil
	}
}

// server answers every connection with a text.
func (b *bench) server(ns kernel.NS, network, address, text string) {
	b.t.Helper()
	var l net.Listener
	if err := b.linux.Within(ns, 0, func() (err error) { l, err = net.Listen(network, address); return err }); err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(text))
			c.Close()
		}
	}()
	b.t.Cleanup(func() { l.Close(); <-done })
}

// hears is what a client hears.
func (b *bench) hears(ns kernel.NS, network, address string) string {
	b.t.Helper()
	var c net.Conn
	if err := b.linux.Within(ns, 0, func() (err error) { c, err = net.Dial(network, strings.ReplaceAll(address, "DIR", b.dir)); return err }); err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	text, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

const (
	web  = `{"listen":{"address":"127.0.0.1:80"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:80"}}`
	file = `{"listen":{"address":"DIR/web"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:80"}}`
)

// TestCrashes: wherever it ends, the next run knows what is ours and finishes.
func TestCrashes(t *testing.T) {
	for _, text := range []string{web, file} {
		for _, at := range []string{"proxy/recorded", "proxy/started", "proxy/made", "proxy/deleted"} {
			t.Run(at, func(t *testing.T) {
				b := newBench(t)
				b.server(b.blueNS, "tcp", "127.0.0.1:80", "blue")
				b.fail = at
				p, err := b.create("proxy/web", text)
				if err == nil {
					err = b.kind.Delete(t.Context(), "proxy/web", b.value(text), p)
				}
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				b.fail = ""
				b.restart()
				if p, err = b.create("proxy/web", text); err != nil {
					t.Fatal(err)
				}
				if got := b.running(); len(got) != 1 || got[0].PID != p.PID {
					t.Errorf("%+v run, not only %+v", got, p)
				}
				network, address := "tcp", "127.0.0.1:80"
				if text == file {
					network, address = "unix", "DIR/web"
				}
				if got := b.hears(b.Own(), network, address); got != "blue" {
					t.Errorf("heard %q", got)
				}
				if err := b.kind.Delete(t.Context(), "proxy/web", b.value(text), p); err != nil {
					t.Fatal(err)
				}
				if left := b.ledger.Entries(""); len(left) != 0 || len(b.running()) != 0 {
					t.Error(left, b.running())
				}
				if _, err := os.Lstat(filepath.Join(b.dir, "web")); err == nil {
					t.Error("the socket file is left")
				}
			})
		}
	}
}

// TestCrashOfAChange: what is read after a change that was cut short is what is so, and not
// what the ledger says already.
func TestCrashOfAChange(t *testing.T) {
	b := newBench(t)
	changed := strings.TrimSuffix(file, "}") + `,"max_sessions":7}`
	p := b.must("proxy/web", file)
	for at, want := range map[string]string{"proxy/recorded": file, "proxy/made": changed} {
		b.fail = at
		if _, err := b.kind.Update(t.Context(), "proxy/web", b.value(file), b.value(changed), p); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		b.fail = ""
		b.restart()
		if got := b.found("proxy/web"); !proto.Equal(got.Value, b.value(want)) || got.Meta != p {
			t.Errorf("%s: read %s", at, models.Encode(got.Value))
		}
		if _, err := b.kind.Update(t.Context(), "proxy/web", b.value(changed), b.value(file), p); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIncumbentStays: who listens already is named, and is not disturbed. What is ours
// blocks until it goes, also if it is in the same namespace by another name.
func TestIncumbentStays(t *testing.T) {
	b := newBench(t)
	b.foreign(t, b.value(web))
	_, err := b.create("proxy/web", web)
	var op *scheduler.OpError
	if want := fmt.Sprintf("process %d (proxy.test)", os.Getpid()); !errors.As(err, &op) || op.Owner != want || !strings.HasPrefix(err.Error(), "tcp 127.0.0.1:80 is in use") {
		t.Errorf("%v, want %s", err, want)
	}
	if left := b.ledger.Entries(""); len(left) != 0 {
		t.Error(left)
	}
	const other = `{"listen":{"namespace":{"netns":"blue"},"address":"127.0.0.1:90"},"forward":{"address":"127.0.0.1:80"}}`
	b.must("proxy/other", other)
	for _, text := range []string{
		`{"listen":{"namespace":{"netns":"other"},"address":"127.0.0.1:90"},"forward":{"address":"127.0.0.1:80"}}`,
		`{"listen":{"namespace":{"netns":"blue"},"address":"0.0.0.0:90"},"forward":{"address":"127.0.0.1:80"}}`,
	} {
		if _, err := b.create("proxy/web", text); !errors.As(err, &op) || op.On != "proxy/other" || !strings.Contains(err.Error(), ":90 is in use by proxy/other") {
			t.Errorf("%v", err)
		}
	}
	if got := b.ledger.Entries(""); len(got) != 1 {
		t.Error(got)
	}
}

// TestWhatOthersDo: what is read after it is what is so.
func TestWhatOthersDo(t *testing.T) {
	b := newBench(t)
	p := b.must("proxy/web", file)
	path := filepath.Join(b.dir, "web")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	all := scope{All: true}
	if got, want := b.reads(all), `proxy/web {"listen":{"address":"DIR/web","mode":"0644"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:80"}}`; got != want {
		t.Errorf("read %s\nwant %s", got, want)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, want := b.reads(all), `proxy/web {"listen":{"protocol":"unix"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:80"}}`; got != want {
		t.Errorf("read %s\nwant %s", got, want)
	}
	if v := b.kind.Compare("proxy/web", b.found("proxy/web").Value, b.value(file)); v.Change != scheduler.Replace {
		t.Errorf("%+v", v)
	}
	if err := b.kind.Delete(t.Context(), "proxy/web", b.value(file), p); err != nil {
		t.Fatal(err)
	}
	p = b.must("proxy/web", file)
	kill(t, p)
	netlinktest.Eventually(t, "only its file is left", func() bool {
		return strings.Contains(b.reads(all), `"listen":{"protocol":"unix"}`)
	})
	f := b.found("proxy/web")
	if err := b.kind.Delete(t.Context(), "proxy/web", f.Value, f.Meta); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err == nil || b.reads(all) != "" || len(b.ledger.Entries("")) != 0 {
		t.Errorf("left: %v, %s, %v", err, b.reads(all), b.ledger.Entries(""))
	}
	p = b.must("proxy/web", web)
	kill(t, p)
	netlinktest.Eventually(t, "it is forgotten", func() bool { return b.reads(all) == "" && len(b.ledger.Entries("")) == 0 })
}

// TestEarlierBoot: a socket file on disk outlives the boot in which it was made, and is
// removed by what the ledger says of it; that of another is not.
func TestEarlierBoot(t *testing.T) {
	b := newBench(t)
	p := b.must("proxy/web", file)
	e := b.ledger.Entries("")[0]
	if err := proxy.RemoveLeft(b.proxies, e); err != nil {
		t.Error(err)
	}
	path := filepath.Join(b.dir, "web")
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("one that is served was removed: %v", err)
	}
	kill(t, p)
	netlinktest.Eventually(t, "it has ended", func() bool { return syscall.Kill(p.PID, 0) != nil })
	if err := proxy.RemoveLeft(b.proxies, e); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("it is left")
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(proxy.RemoveLeft(b.proxies, e), proxy.RemoveLeft(b.proxies, kernel.Entry{ID: "route/a"})); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("that of another was removed: %v", err)
	}
}

// TestNamespaceIsAnother: after a restart a proxy of a namespace that has gone is not taken
// for one of the namespace that has its name now.
func TestNamespaceIsAnother(t *testing.T) {
	b := newBench(t)
	first := filepath.Join(b.dir, "blue")
	netlinktest.Mount(t, first)
	b.bluePath = first
	b.blueNS, _ = b.Open(first)
	b.must("proxy/web", web)
	b.must("proxy/in", `{"listen":{"namespace":{"netns":"blue"},"address":"127.0.0.1:90"},"forward":{"address":"127.0.0.1:80"}}`)
	_ = syscall.Unmount(first, syscall.MNT_DETACH)
	_ = os.Remove(first)
	netlinktest.Mount(t, first)
	netlinktest.Eventually(t, "the kernel has heard of it", func() bool { return !b.Alive(b.blueNS) })
	b.restart()
	want := `proxy/in {"listen":{"namespace":{"netns":"blue"},"protocol":"tcp"},"forward":{"address":"127.0.0.1:80"}}
proxy/web {"listen":{"address":"127.0.0.1:80"},"forward":{"namespace":{"netns":"blue"}}}`
	if got := b.reads(scope{All: true}); got != want {
		t.Errorf("read\n%s\nwant\n%s", got, want)
	}
	if v := b.kind.Compare("proxy/web", b.found("proxy/web").Value, b.value(web)); v.Change != scheduler.Replace || v.Reason != "forward.address none → 127.0.0.1:80" {
		t.Errorf("%+v", v)
	}
}

// TestLedgerLost: without the ledger processes are found by their mark, and go on.
func TestLedgerLost(t *testing.T) {
	b := newBench(t)
	p := b.must("proxy/web", file)
	b.ledger = &kernel.MemLedger{}
	b.restart()
	mine := func() (found string) {
		for _, line := range strings.Split(b.reads(scope{All: true}), "\n") {
			if strings.HasPrefix(line, "proxy/web ") {
				found = line
			}
		}
		return found
	}
	if got, want := mine(), "proxy/web "+string(models.Encode(b.value(file))); got != strings.ReplaceAll(want, b.dir, "DIR") {
		t.Errorf("read %s, want %s", got, want)
	}
	if f := b.found("proxy/web"); f.Meta.PID != p.PID {
		t.Errorf("asked for by its key it is process %d, want %d", f.Meta.PID, p.PID)
	}
	if err := b.kind.Delete(t.Context(), "proxy/web", b.value(file), b.running()[0]); err != nil {
		t.Error(err)
	}
	if got := mine(); got != "" || len(b.running()) != 0 {
		t.Errorf("left of %d: %s", p.PID, got)
	}
}

// TestWatch: what others do to ours is news, what we do is not.
func TestWatch(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	var news []scheduler.Key
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- b.kind.Watch(ctx, func(keys ...scheduler.Key) {
			mu.Lock()
			defer mu.Unlock()
			news = append(news, keys...)
		})
	}()
	defer func() { cancel(); <-done }()
	heard := func(want ...scheduler.Key) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if got := slices.Compact(news); !slices.Equal(got, want) {
			t.Errorf("news %v, want %v", got, want)
		}
		news = nil
	}
	// The first is through once the second is taken.
	ask := func() { b.poll <- time.Time{}; b.poll <- time.Time{} }
	p := b.must("proxy/file", file)
	if _, err := b.kind.Update(ctx, "proxy/file", b.value(file), b.value(strings.Replace(file, `DIR/web"`, `DIR/web","mode":"0660"`, 1)), p); err != nil {
		t.Fatal(err)
	}
	own := b.must("proxy/own", web)
	if err := b.kind.Delete(ctx, "proxy/own", b.value(web), own); err != nil {
		t.Fatal(err)
	}
	ask()
	heard()
	if err := os.Chmod(filepath.Join(b.dir, "web"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask()
	heard("proxy/file")
	b.found("proxy/file")
	ask() // through with what was asked before it was read
	mu.Lock()
	news = nil
	mu.Unlock()
	ask()
	heard()
	kill(t, p)
	netlinktest.Eventually(t, "its end is told", func() bool { mu.Lock(); defer mu.Unlock(); return len(news) > 0 })
	heard("proxy/file")
}
