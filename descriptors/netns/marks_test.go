package netns_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// TestChangedMarkIsRestored: a namespace whose mark others have changed or removed stays ours,
// also after a restart, and gets its mark back.
func TestChangedMarkIsRestored(t *testing.T) {
	for _, alias := range []string{"", "blue pods", "plumb:host7:netns/red"} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q restart %v", alias, restart), func(t *testing.T) {
				b := newBench(t)
				ns, err := b.create("blue")
				if err != nil {
					t.Fatal(err)
				}
				if b.Cookie(ns) == 0 {
					t.Fatal("this kernel does not report cookies of namespaces (Linux 5.14)")
				}
				in := &netlinktest.Namespace{Path: filepath.Join(b.dir, "blue")}
				in.IP(t, "link set lo up")
				in.Run(t, "ip", "link", "set", "dev", "lo", "alias", alias)
				if restart {
					b.restart()
				}
				if got := b.look("blue"); got != "netns/blue" {
					t.Errorf("found %s", got)
				}
				if got := in.Show(t, "lo")["ifalias"]; got != "plumb:host7:netns/blue" {
					t.Errorf("the mark is %v", got)
				}
				if again, err := b.create("blue"); err != nil || again != ns {
					t.Errorf("again: %v %v", again, err)
				}
			})
		}
	}
}

// TestCopiedMark: another namespace under the name of ours, with a copy of its mark, is foreign.
func TestCopiedMark(t *testing.T) {
	b := newBench(t)
	ns, err := b.create("blue")
	if err != nil {
		t.Fatal(err)
	}
	if b.Cookie(ns) == 0 {
		t.Fatal("this kernel does not report cookies of namespaces (Linux 5.14)")
	}
	if err := b.DeleteNamed("blue"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateNamed("blue"); err != nil {
		t.Fatal(err)
	}
	in := &netlinktest.Namespace{Path: filepath.Join(b.dir, "blue")}
	in.Run(t, "ip", "link", "set", "dev", "lo", "alias", "plumb:host7:netns/blue")
	for range 2 {
		if got := b.look("blue"); got != "netns/blue*" {
			t.Errorf("found %s", got)
		}
		b.restart()
	}
}
