package netlink_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/plugins/openfiles"
)

// kinds is how many watch in an agent: one for every kind that lives in a namespace.
const kinds = 8

// watchAll watches as an agent does.
func watchAll(t testing.TB, b *bench) []*watching {
	var all []*watching
	for range kinds {
		all = append(all, watch(t, b))
	}
	return all
}

// A pod costs two files, however many watch: 10,000 fit into 65,536 and leave room. A
// process costs one more.
func TestFilesPerNamespace(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	all := watchAll(t, b)
	dir := t.TempDir()
	const n = 400 // far more than conns are kept
	var mounted []*netlinktest.Namespace
	for i := range n {
		mounted = append(mounted, netlinktest.Mount(t, filepath.Join(dir, fmt.Sprint(i))))
	}
	before := files(t)
	for _, m := range mounted {
		ns, err := b.Open(m.Path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Links(ns); err != nil {
			t.Fatal(err)
		}
	}
	const conns = 256 // those that are idle, of all namespaces together
	if more := files(t) - before; more > 2*n+conns {
		t.Errorf("%d namespaces cost %d files", n, more)
	}
	p := netlinktest.Start(t)
	before = files(t)
	if _, err := b.Open(p.Path); err != nil {
		t.Fatal(err)
	}
	if more := files(t) - before; more > 3 {
		t.Errorf("a process costs %d files", more)
	}
	// All of them are told of what happens in each.
	mounted[n-1].IP(t, "link add news0 type veth peer name news1")
	for _, w := range all {
		w.until(t, "the new link", func(ev kernel.Event) bool { return ev.Link != nil && ev.Link.Name == "news0" })
	}
}

// What nobody uses is closed, after a second look, although what it was opened by
// goes on; what is used stays, and what was closed can be opened again.
func TestUnusedIsClosed(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	w := watch(t, b)
	p := netlinktest.Start(t)
	before := files(t)
	used := map[kernel.NS]bool{}
	var list []kernel.NS
	for i := range 4 {
		path := p.Path
		if i > 0 {
			path = netlinktest.Mount(t, filepath.Join(t.TempDir(), "pod")).Path
		}
		ns, err := b.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Links(ns); err != nil {
			t.Fatal(err)
		}
		used[ns] = true
		list = append(list, ns)
	}
	isUsed := func(ns kernel.NS) bool { return used[ns] }
	for range 3 {
		if left := b.CloseUnused(isUsed); left != 0 || len(b.InUse()) != 5 {
			t.Fatalf("%d left, %v in use", left, b.InUse())
		}
	}
	delete(used, list[0])
	delete(used, list[1])
	if _, err := b.Links(list[0]); err != nil {
		t.Fatal(err)
	}
	if left := b.CloseUnused(isUsed); left != 2 || len(b.InUse()) != 5 { // touched since
		t.Fatalf("%d left, %v in use", left, b.InUse())
	}
	if !b.Alive(list[1]) {
		t.Error("it does not live")
	}
	if left := b.CloseUnused(isUsed); left != 1 || len(b.InUse()) != 4 { // who asked is about to use it
		t.Fatalf("%d left, %v in use", left, b.InUse())
	}
	w.until(t, "the first is closed", func(ev kernel.Event) bool { return ev.Gone && ev.NS == list[0] })
	clear(used)
	for b.CloseUnused(isUsed) > 0 {
	}
	if inUse := b.InUse(); len(inUse) != 1 || inUse[0] != b.Own() {
		t.Errorf("%v in use, own is %d", inUse, b.Own())
	}
	if after := files(t); after != before {
		t.Errorf("%d files before, %d after", before, after)
	}
	if ns, err := b.Open(p.Path); err != nil || ns != list[0] {
		t.Errorf("opened again: %d, %v", ns, err)
	}
	if _, err := b.Links(list[0]); err != nil {
		t.Error(err)
	}
}

// limited is how many files the process of TestLimitOfOpenFiles may open.
const limited = 200

// At the limit of open files whoever asks for more is told which limit it is. The rest
// goes on, nothing is taken for gone, and when namespaces end there is room again.
func TestLimitOfOpenFiles(t *testing.T) {
	netlinktest.Root(t)
	if os.Getenv("PLUMB_TEST_LIMITED") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLimitOfOpenFiles$", "-test.v")
		cmd.Env = append(os.Environ(), "PLUMB_TEST_LIMITED=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dir, named := t.TempDir(), netlinktest.Dir(t)
	var pods []*netlinktest.Namespace
	for i := range limited {
		pods = append(pods, netlinktest.Mount(t, filepath.Join(dir, fmt.Sprint(i))))
	}
	b := newKernel(t, netlink.Options{NamedDir: named})
	all := watchAll(t, b)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limited, Max: limited}); err != nil {
		t.Fatal(err)
	}
	before := files(t)
	for round := range 3 {
		opened := fill(t, b, pods)
		// A file that was open for a moment when the last pod was refused may be free again:
		// a few more may be made, and then none.
		var more []string
		for i := range 3 {
			name := fmt.Sprint("more", i)
			_, err := b.CreateNamed(name)
			if errors.Is(err, openfiles.ErrLimit) {
				break
			}
			if more = append(more, name); err != nil || len(more) == 3 {
				t.Errorf("%d more than there is room for: %v", len(more), err)
			}
		}
		for _, ns := range opened {
			if _, err := b.Links(ns); err != nil || !b.Alive(ns) {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		// There is room for others: for a program, for what is written to disk.
		pods[0].IP(t, fmt.Sprintf("link add r%d type veth peer name s%d", round, round))
		for _, w := range all {
			w.until(t, "news", func(ev kernel.Event) bool {
				return ev.Link != nil && ev.Link.Name == fmt.Sprintf("r%d", round)
			})
		}
		for _, name := range more {
			if err := b.DeleteNamed(name); err != nil {
				t.Error(err)
			}
		}
		for b.CloseUnused(func(kernel.NS) bool { return false }) > 0 {
		}
		// For a moment the watch of paths has one open itself, to look at the names.
		netlinktest.Eventually(t, fmt.Sprintf("round %d: the files are closed", round), func() bool { return files(t) <= before })
	}
	// What ends by itself makes room as well.
	opened := fill(t, b, pods)
	for _, p := range pods {
		if err := unix.Unmount(p.Path, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
	netlinktest.Eventually(t, "all are closed", func() bool { return len(b.InUse()) == 1 })
	netlinktest.Eventually(t, fmt.Sprintf("the files of %d namespaces that ended are closed", len(opened)), func() bool { return files(t) <= before })
	if _, err := b.CreateNamed("more"); err != nil {
		t.Error(err)
	}
}

// fill opens pods until no more is allowed.
func fill(t *testing.T, b *bench, pods []*netlinktest.Namespace) (opened []kernel.NS) {
	t.Helper()
	for _, p := range pods {
		ns, err := b.Open(p.Path)
		if err == nil {
			if _, err = b.Links(ns); err != nil {
				t.Fatal(err)
			}
			opened = append(opened, ns)
			continue
		}
		want := fmt.Sprintf("the limit of open files (%d) is reached", limited)
		if !errors.Is(err, openfiles.ErrLimit) || errors.Is(err, kernel.ErrNoNamespace) || !strings.Contains(err.Error(), want) {
			t.Fatalf("after %d: %v", len(opened), err)
		}
		if len(opened) < 40 {
			t.Fatalf("only %d fit in", len(opened))
		}
		return opened
	}
	t.Fatalf("all %d fit in", len(opened))
	return nil
}
