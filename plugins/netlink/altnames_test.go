package netlink_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// Names are given and taken, and shown by every way to read a link, as ip shows them.
func TestAltNames(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, n := b.open(t)
	l := b.add(t, ns, kernel.LinkSpec{Name: "br0", Bridge: &kernel.BridgeSpec{}})
	other := b.add(t, ns, kernel.LinkSpec{Name: "br1", Bridge: &kernel.BridgeSpec{}})
	long := strings.Repeat("n", 127)
	for _, name := range []string{"one", long, "two"} {
		if err := b.AddAltName(ns, l.Index, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.RemoveAltName(ns, l.Index, "two"); err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprint(n.Show(t, "br0")["altnames"]); shown != "[one "+long+"]" {
		t.Errorf("ip shows %s", shown)
	}
	all, err := b.Links(ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range all {
		var want []string
		if got.Index == l.Index {
			want = []string{"one", long}
		}
		one, err := b.LinkByIndex(ns, got.Index)
		if err != nil || !slices.Equal(got.AltNames, want) || !slices.Equal(one.AltNames, want) {
			t.Errorf("%s: listed with %v, found with %v, %v", got.Name, got.AltNames, one.AltNames, err)
		}
	}
	for _, taken := range []string{"one", "br0", "br1"} {
		if err := b.AddAltName(ns, other.Index, taken); !errors.Is(err, kernel.ErrExist) {
			t.Errorf("%s, which is taken: %v", taken, err)
		}
	}
	if err := b.RemoveAltName(ns, other.Index, "one"); err == nil {
		t.Error("the name of another link was taken from it")
	}
	if err := b.AddAltName(ns, 4711, "x"); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("no link: %v", err)
	}
	if err := b.AddAltName(ns, l.Index, long+"n"); err == nil {
		t.Error("a name of 128 bytes was taken")
	}
}
