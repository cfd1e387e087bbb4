package netlink_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

func processPath(pid int) string { return fmt.Sprintf("/proc/%d/ns/net", pid) }

func TestOwn(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	if b.Own() != kernel.NS(b.own.Inode) || !b.Alive(b.Own()) || !reflect.DeepEqual(b.InUse(), []kernel.NS{b.Own()}) {
		t.Errorf("own is %d, in use %v", b.Own(), b.InUse())
	}
	k, err := netlink.New(netlink.Options{NamedDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if st, err := os.Stat("/proc/self/ns/net"); err != nil || k.Own() != inode(st) {
		t.Errorf("own is %d by default", k.Own())
	}
}

func inode(st os.FileInfo) kernel.NS { return kernel.NS(st.Sys().(*syscall.Stat_t).Ino) }

func TestOpenRefusesWhatIsNoNetworkNamespace(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), unix.Mkfifo(pipe, 0o600), os.Symlink(link, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "/proc/self/ns/mnt", "/proc/self/ns/user", "/dev/null", dir, file, pipe, link, "/proc/self/fd/0"} {
		if ns, err := b.Open(path); err == nil {
			t.Errorf("%q was opened as %d", path, ns)
		}
	}
	for path, want := range map[string]string{
		"/proc/self/ns/mnt": "not a network namespace: it is a namespace of another type (mnt)",
		file:                "not a network namespace: it is not a namespace file",
	} {
		if _, err := b.Open(path); !errors.Is(err, kernel.ErrNotNamespace) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "nothing"), processPath(ended.Process.Pid)} {
		if _, err := b.Open(path); !errors.Is(err, kernel.ErrNoNamespace) || !errors.Is(err, kernel.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n := len(b.InUse()); n != 1 {
		t.Errorf("%d namespaces are in use", n)
	}
}

// When a process ends, what it had in its namespace ends with it, although we
// held that namespace open, had sockets in it and watched it.
func TestEndOfProcess(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	w := watch(t, b)
	p := netlinktest.Start(t)
	ns, err := b.Open(processPath(p.Pid))
	if err != nil || ns != kernel.NS(p.Inode) {
		t.Fatal(ns, err)
	}
	b.add(t, b.Own(), kernel.LinkSpec{Name: "web", Up: true, Veth: &kernel.VethSpec{PeerNS: ns, PeerName: "eth0"}})
	if again, err := b.Open(processPath(p.Pid)); err != nil || again != ns || !b.Alive(ns) {
		t.Errorf("again: %d, %v", again, err)
	}
	start := time.Now()
	p.Kill()
	if b.Alive(ns) {
		t.Error("alive after its process ended")
	}
	w.until(t, "the namespace is gone", func(ev kernel.Event) bool { return ev.Gone && ev.NS == ns })
	w.until(t, "the peer is gone", func(ev kernel.Event) bool { return ev.Deleted && ev.Link != nil && ev.Link.Name == "web" })
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
	if names := b.own.Names(t); len(names) != 0 {
		t.Errorf("left %v", names)
	}
	if _, err := b.Links(ns); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("links of the dead: %v", err)
	}
}

// A namespace that several processes and paths stand for ends with the last.
func TestLastHolderEndsTheNamespace(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	w := watch(t, b)
	p := netlinktest.Start(t)
	second := exec.Command("nsenter", "--net="+p.Path, "cat")
	if _, err := second.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Process.Kill(); _ = second.Wait() }()
	netlinktest.Eventually(t, "the second process has entered", func() bool {
		st, err := os.Stat(processPath(second.Process.Pid))
		return err == nil && inode(st) == kernel.NS(p.Inode)
	})
	mounted := filepath.Join(t.TempDir(), "mounted")
	if err := errors.Join(os.WriteFile(mounted, nil, 0o400), unix.Mount(p.Path, mounted, "none", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) }()
	symlink := filepath.Join(t.TempDir(), "symlink")
	if err := os.Symlink(processPath(second.Process.Pid), symlink); err != nil {
		t.Fatal(err)
	}
	var ns kernel.NS
	for _, path := range []string{p.Path, symlink, mounted, mounted} {
		var err error
		if ns, err = b.Open(path); err != nil {
			t.Fatal(err)
		}
	}
	p.Kill()
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait()
	if !b.Alive(ns) {
		t.Error("not alive while it is mounted")
	}
	if _, err := b.Links(ns); err != nil {
		t.Error(err)
	}
	// Unmounted, but not removed: there is no namespace at the path any more.
	if err := unix.Unmount(mounted, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	w.until(t, "the namespace is gone", func(ev kernel.Event) bool { return ev.Gone && ev.NS == ns })
}

func TestNamed(t *testing.T) {
	dir := netlinktest.Dir(t)
	b := newKernel(t, netlink.Options{NamedDir: dir})
	w := watch(t, b)
	ns, err := b.CreateNamed("blue")
	if err != nil {
		t.Fatal(err)
	}
	w.until(t, "the name", func(ev kernel.Event) bool { return ev.Named == "blue" && ev.NS == ns && !ev.Deleted })
	if _, err := b.CreateNamed("blue"); !errors.Is(err, kernel.ErrExist) {
		t.Errorf("again: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rubbish"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := b.ListNamed(); err != nil || !reflect.DeepEqual(list, map[string]kernel.NS{"blue": ns}) {
		t.Errorf("%v, %v", list, err)
	}
	if st, err := os.Stat("/proc/self/ns/net"); err != nil || inode(st) == ns {
		t.Error("this process has moved there itself")
	}
	b.add(t, b.Own(), kernel.LinkSpec{Name: "web", Veth: &kernel.VethSpec{PeerNS: ns, PeerName: "eth0"}})
	if err := b.DeleteNamed("blue"); err != nil {
		t.Fatal(err)
	}
	if b.Alive(ns) || len(b.InUse()) != 1 {
		t.Error("still open")
	}
	w.until(t, "the namespace is gone", func(ev kernel.Event) bool { return ev.Gone && ev.NS == ns })
	w.until(t, "its link is gone", func(ev kernel.Event) bool { return ev.Deleted && ev.Link != nil })
	if err := b.DeleteNamed("blue"); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("again: %v", err)
	}
	if err := b.DeleteNamed("rubbish"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "a\x00"} {
		if _, err := b.CreateNamed(name); err == nil {
			t.Errorf("made %q", name)
		}
		if err := b.DeleteNamed(name); err == nil {
			t.Errorf("deleted %q", name)
		}
	}
}

// Names that others make and remove are told, with the identity, and handles
// to them are closed.
func TestNamedByOthers(t *testing.T) {
	dir := netlinktest.Dir(t)
	b := newKernel(t, netlink.Options{NamedDir: dir})
	w := watch(t, b)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n := netlinktest.Mount(t, filepath.Join(dir, "green"))
	id := kernel.NS(n.Inode)
	w.until(t, "the name came", func(ev kernel.Event) bool { return ev.Named == "green" && ev.NS == id && !ev.Deleted })
	if ns, err := b.Open(n.Path); err != nil || ns != id {
		t.Fatal(ns, err)
	}
	if err := unix.Unmount(n.Path, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	w.until(t, "the namespace is gone", func(ev kernel.Event) bool { return ev.Gone && ev.NS == id })
	w.until(t, "the name went", func(ev kernel.Event) bool { return ev.Named == "green" && ev.NS == id && ev.Deleted })
}

// A name may also be a symbolic link to a process, and its directory may come
// later than we do.
func TestNamedBySymlink(t *testing.T) {
	dir := filepath.Join(netlinktest.Dir(t), "..", "later")
	b := newKernel(t, netlink.Options{NamedDir: dir})
	w := watch(t, b)
	p := netlinktest.Start(t)
	path, id := filepath.Join(dir, "red"), kernel.NS(p.Inode)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Symlink(p.Path, path)); err != nil {
		t.Fatal(err)
	}
	w.until(t, "the name came", func(ev kernel.Event) bool { return ev.Named == "red" && ev.NS == id && !ev.Deleted })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.until(t, "the name went", func(ev kernel.Event) bool { return ev.Named == "red" && ev.NS == id && ev.Deleted })
}

// Hundreds of namespaces cost files, not goroutines.
func TestManyNamespaces(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	watch(t, b)
	goroutines, open := runtime.NumGoroutine(), files(t)
	const n = 200
	for range n {
		ns, _ := b.open(t)
		if _, err := b.Links(ns); err != nil {
			t.Fatal(err)
		}
	}
	// The namespace, its events, a conn, and the test's own file.
	if more := files(t) - open; more > 4*n {
		t.Errorf("%d more files", more)
	}
	netlinktest.Eventually(t, "no goroutine stays", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// The real tool and we see each other's namespaces.
func TestNamedLikeTheTool(t *testing.T) {
	netlinktest.Root(t)
	const dir = "/run/netns"
	name := fmt.Sprintf("plumbtest%d", os.Getpid())
	b := newKernel(t, netlink.Options{NamedDir: dir})
	ns, err := b.CreateNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.DeleteNamed(name) }()
	if out := b.own.IP(t, "netns list"); !strings.Contains(out, name) {
		t.Errorf("ip lists %q", out)
	}
	b.own.IP(t, "-n "+name+" link add br0 type bridge")
	if _, err := b.Link(ns, "br0"); err != nil {
		t.Error(err)
	}
	b.own.IP(t, "netns delete "+name)
	netlinktest.Eventually(t, "our handle is closed", func() bool { return !slices.Contains(b.InUse(), ns) })
	b.own.IP(t, "netns add "+name)
	if list, err := b.ListNamed(); err != nil || list[name] == 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// Every call says so when its namespace is not there.
func TestErrNoNamespace(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	const gone = 4711
	prefix := netip.MustParsePrefix("10.0.0.1/24")
	_, links := b.Links(gone)
	_, link := b.Link(gone, "x")
	_, byIndex := b.LinkByIndex(gone, 1)
	_, added := b.AddLink(gone, kernel.LinkSpec{Name: "x", Plain: "dummy"})
	_, veth := b.AddLink(b.Own(), kernel.LinkSpec{Name: "x", Veth: &kernel.VethSpec{PeerNS: gone, PeerName: "y"}})
	_, macvlan := b.AddLink(b.Own(), kernel.LinkSpec{Name: "x", Macvlan: &kernel.MacvlanSpec{ParentNS: gone, Parent: 1}})
	_, vlan := b.AddLink(b.Own(), kernel.LinkSpec{Name: "x", Vlan: &kernel.VlanSpec{ParentNS: gone, Parent: 1}})
	_, vxlan := b.AddLink(b.Own(), kernel.LinkSpec{Name: "x", Vxlan: &kernel.VxlanSpec{ParentNS: gone}})
	_, tap := b.AddLink(gone, kernel.LinkSpec{Name: "x", Tuntap: &kernel.TuntapSpec{}})
	_, addresses := b.Addresses(gone, 0)
	_, routes := b.Routes(gone)
	for what, err := range map[string]error{
		"Links": links, "Link": link, "LinkByIndex": byIndex, "AddLink": added,
		"veth": veth, "macvlan": macvlan, "vlan": vlan, "vxlan": vxlan, "tap": tap,
		"SetLink":     b.SetLink(gone, 1, kernel.LinkPatch{Up: ref(true)}),
		"DeleteLink":  b.DeleteLink(gone, 1),
		"DeleteLinks": b.DeleteLinks(gone, indexed(1, 2)),
		"Addresses":   addresses, "Routes": routes,
		"AddAddress":    b.AddAddress(gone, kernel.Address{Index: 1, Prefix: prefix}),
		"DeleteAddress": b.DeleteAddress(gone, kernel.Address{Index: 1, Prefix: prefix}),
		"AddRoute":      b.AddRoute(gone, kernel.Route{Dst: prefix, Index: 1}),
		"ReplaceRoute":  b.ReplaceRoute(gone, kernel.Route{Dst: prefix, Index: 1}),
		"DeleteRoute":   b.DeleteRoute(gone, kernel.Route{Dst: prefix, Index: 1}),
	} {
		if !errors.Is(err, kernel.ErrNoNamespace) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b.Alive(gone) || b.Alive(0) {
		t.Error("alive")
	}
}

// Calls, openings and ends at the same time: nothing breaks and nothing stays.
func TestConcurrentUse(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan error, 1)
	go func() { watched <- b.Watch(ctx, func(kernel.Event) {}) }()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 8 {
				p := netlinktest.Start(t)
				ns, err := b.Open(p.Path)
				if err != nil {
					t.Error(err)
					return
				}
				var calls sync.WaitGroup
				for range 3 {
					calls.Go(func() {
						for range 10 {
							if _, err := b.Links(ns); err != nil && !errors.Is(err, kernel.ErrNoNamespace) {
								t.Error(err)
							}
						}
					})
				}
				p.Kill()
				calls.Wait()
			}
		})
	}
	wg.Wait()
	netlinktest.Eventually(t, "all but the own are closed", func() bool { return len(b.InUse()) == 1 })
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

// Close gives back every file, and calls after it say so.
func TestClose(t *testing.T) {
	netlinktest.Root(t)
	own, p := netlinktest.New(t), netlinktest.Start(t)
	before := files(t)
	k, err := netlink.New(netlink.Options{OwnPath: own.Path, NamedDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	watched := make(chan error, 1)
	go func() {
		watched <- k.Watch(context.Background(), func(ev kernel.Event) {
			if ev.Ready {
				close(ready)
			}
		})
	}()
	<-ready
	ns, err := k.Open(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Links(ns); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.Close(), k.Close()); err != nil {
		t.Error(err)
	}
	if err := <-watched; !errors.Is(err, netlink.ErrClosed) {
		t.Errorf("watch ended with %v", err)
	}
	if after := files(t); after != before {
		t.Errorf("%d files were open before, %d after", before, after)
	}
	_, err = k.Links(ns)
	_, opened := k.Open(p.Path)
	for _, err := range []error{err, opened, k.Watch(context.Background(), func(kernel.Event) {})} {
		if !errors.Is(err, netlink.ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	}
}

func files(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
