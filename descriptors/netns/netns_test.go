package netns_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/netns"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

const label = "host7"

type (
	scope = scheduler.Scope[*models.NetNS, kernel.NS]
	known = scheduler.Known[*models.NetNS, kernel.NS]
)

// bench is the kind on a live kernel, in a directory of the test's own.
type bench struct {
	*hosttest.Host
	t      *testing.T
	dir    string
	ledger *kernel.MemLedger
	fail   string
	hits   map[string]int
	kind   scheduler.Descriptor[*models.NetNS, kernel.NS]
}

var errCrash = errors.New("crash")

func newBench(t *testing.T) *bench {
	t.Helper()
	b := newBenchOn(t, hosttest.Linux(t))
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	b := &bench{Host: h, t: t, dir: h.NamedDir, ledger: &kernel.MemLedger{}, hits: map[string]int{}}
	b.restart()
	return b
}

func (b *bench) restart() {
	owner := kernel.NewOwner(label, "boot", b.ledger, func(name string) error {
		b.hits[name]++
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.kind = netns.New(b.Kernel, owner, netns.Options{Dir: b.dir})
}

func (b *bench) create(name string) (kernel.NS, error) {
	return b.kind.Create(context.Background(), scheduler.Key(models.NetNSKey(name)), &models.NetNS{})
}

func (b *bench) delete(name string, ns kernel.NS) error {
	return b.kind.Delete(context.Background(), scheduler.Key(models.NetNSKey(name)), &models.NetNS{}, ns)
}

// look lists what is found, foreign ones with a star.
func (b *bench) look(want ...string) string {
	b.t.Helper()
	s := scope{All: true}
	for _, name := range want {
		s.Known = append(s.Known, known{Key: scheduler.Key(models.NetNSKey(name)), Value: &models.NetNS{}})
	}
	var list []string
	for f, err := range b.kind.Retrieve(context.Background(), s) {
		if err != nil {
			b.t.Errorf("%s: %v", f.Key, err)
		}
		line := string(f.Key)
		if f.Foreign {
			line += "*"
		}
		if f.Meta == 0 {
			b.t.Errorf("%s has no identity", f.Key)
		}
		list = append(list, line)
	}
	return strings.Join(list, " ")
}

func TestThereAndBack(t *testing.T) {
	b := newBench(t)
	ns, err := b.create("blue")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.create("blue"); err != nil || again != ns {
		t.Errorf("again: %v %v", again, err)
	}
	netlinktest.Mount(t, filepath.Join(b.dir, "theirs"))
	if got, want := b.look("blue", "theirs"), "netns/blue netns/theirs*"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	b.restart()
	*b.ledger = kernel.MemLedger{}
	if got, want := b.look(), "netns/blue netns/theirs*"; got != want {
		t.Errorf("by the mark of an open one: %s, want %s", got, want)
	}
	if got, want := b.look("blue"), "netns/blue netns/theirs*"; got != want {
		t.Errorf("by the mark alone: %s, want %s", got, want)
	}
	for range 2 {
		if err := b.delete("blue", ns); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.look(); got != "netns/theirs*" {
		t.Errorf("left %s", got)
	}
}

func TestForeignNamesAreNotTaken(t *testing.T) {
	b := newBench(t)
	if _, err := b.create("ours"); err != nil { // makes the directory a mount, as the first name does
		t.Fatal(err)
	}
	n := netlinktest.Mount(t, filepath.Join(b.dir, "theirs"))
	_, err := b.create("theirs")
	var class *scheduler.OpError
	if !errors.As(err, &class) || class.Owner == "" {
		t.Errorf("%v, want a conflict", err)
	}
	if len(b.ledger.Entries("")) != 1 {
		t.Errorf("the ledger names what was never made:\n%s", b.ledger)
	}
	// Not even when a ledger that lies says that it is ours.
	n.IP(t, "link add x type bridge")
	if err := b.ledger.Add(kernel.Entry{ID: "netns/theirs", Boot: "boot"}); err != nil {
		t.Fatal(err)
	}
	if err := b.delete("theirs", kernel.NS(n.Inode)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "theirs")); err != nil {
		t.Error("a foreign namespace was deleted")
	}
}

// Another namespace under the name of ours is not ours to delete.
func TestDeleteSparesASuccessor(t *testing.T) {
	b := newBench(t)
	ns, err := b.create("blue")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteNamed("blue"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateNamed("blue"); err != nil {
		t.Fatal(err)
	}
	if err := b.delete("blue", ns); err != nil {
		t.Fatal(err)
	}
	if got := b.look("blue"); got != "netns/blue*" {
		t.Errorf("left %q", got)
	}
}

func TestCrashes(t *testing.T) {
	for _, point := range []string{"netns/recorded", "netns/made", "netns/marked", "netns/deleted"} {
		for _, finish := range []bool{true, false} {
			b := newBench(t)
			b.fail = point
			ns, err := b.create("blue")
			if err == nil {
				err = b.delete("blue", ns)
			}
			if !errors.Is(err, errCrash) || b.hits[point] != 1 {
				t.Fatalf("%s: %v, hit %d times", point, err, b.hits[point])
			}
			b.fail = ""
			b.restart()
			if finish {
				if _, err := b.create("blue"); err != nil {
					t.Errorf("%s: %v", point, err)
				}
				if got := b.look(); got != "netns/blue" {
					t.Errorf("%s: found %q", point, got)
				}
				continue
			}
			for f := range b.kind.Retrieve(t.Context(), scope{All: true}) {
				if f.Foreign {
					t.Errorf("%s: the remnant is not known for ours", point)
				}
				if err := b.delete("blue", f.Meta); err != nil {
					t.Error(err)
				}
			}
			if got := b.look(); got != "" || len(b.ledger.Entries("")) != 0 {
				t.Errorf("%s: left %q, ledger %s", point, got, b.ledger)
			}
		}
	}
}

// After a crash between making and marking others put things into the
// namespace, and then there is a second crash. It is still known for ours.
func TestCrashedTwice(t *testing.T) {
	b := newBench(t)
	b.fail = "netns/made"
	if _, err := b.create("blue"); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	b.fail = ""
	for range 2 {
		b.restart()
		if got := b.look("blue"); got != "netns/blue" {
			t.Errorf("found %q", got)
		}
		if out, err := exec.Command("nsenter", "--net="+filepath.Join(b.dir, "blue"), "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// A crash between making the file and mounting the namespace on it leaves an
// empty file. It is in nobody's way; one that is not recorded is not ours.
func TestCrashBeforeTheMount(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		b := newBench(t)
		b.fail = "netns/recorded"
		if _, err := b.create("blue"); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		b.fail = ""
		b.restart()
		if err := os.MkdirAll(b.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"blue", "theirs"} {
			if err := os.WriteFile(filepath.Join(b.dir, name), nil, 0o444); err != nil {
				t.Fatal(err)
			}
		}
		if !wanted {
			b.look()
			if _, err := os.Stat(filepath.Join(b.dir, "blue")); !os.IsNotExist(err) {
				t.Errorf("nobody wants it and it is there: %v", err)
			}
			continue
		}
		b.look("blue")
		if _, err := b.create("blue"); err != nil {
			t.Error(err)
		}
		if _, err := b.create("theirs"); err == nil {
			t.Error("a file of somebody else was taken")
		}
		if got := b.look(); got != "netns/blue" {
			t.Errorf("found %q", got)
		}
	}
}

func TestWatch(t *testing.T) {
	b := newBench(t)
	b.look()
	var mu sync.Mutex
	var keys []scheduler.Key
	ready := false
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- b.kind.Watch(ctx, func(k ...scheduler.Key) {
			mu.Lock()
			defer mu.Unlock()
			ready = ready || len(k) == 0
			keys = append(keys, k...)
		})
	}()
	defer func() { cancel(); <-done }()
	seen := func(what string, holds func() bool) {
		t.Helper()
		netlinktest.Eventually(t, what, func() bool { mu.Lock(); defer mu.Unlock(); return holds() })
	}
	seen("ready", func() bool { return ready })
	if _, err := b.create("ours"); err != nil {
		t.Fatal(err)
	}
	netlinktest.Mount(t, filepath.Join(b.dir, "theirs"))
	seen("theirs", func() bool { return slices.Contains(keys, "netns/theirs") })
	if err := b.DeleteNamed("ours"); err != nil {
		t.Fatal(err)
	}
	seen("ours", func() bool { return slices.Contains(keys, "netns/ours") })
}
