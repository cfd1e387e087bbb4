package netlink_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

func TestNeighbors(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := pair(t, b)
	four := kernel.Neighbor{Index: l.Index, Address: addr("10.0.0.2"), MAC: "02:00:00:00:00:01", Protocol: ours}
	six := kernel.Neighbor{Index: l.Index, Address: addr("fd00::2"), MAC: "02:00:00:00:00:02"}
	for _, n := range []kernel.Neighbor{four, six} {
		if err := b.AddNeighbor(b.Own(), n); err != nil {
			t.Fatal(err)
		}
		if err := b.AddNeighbor(b.Own(), n); !errors.Is(err, kernel.ErrExist) {
			t.Errorf("a second time: %v", err)
		}
	}
	b.shown(t, "10.0.0.2 lladdr 02:00:00:00:00:01 PERMANENT proto openr", "fd00::2 lladdr 02:00:00:00:00:02 PERMANENT")
	if list, err := b.Neighbors(b.Own()); err != nil || !slices.Equal(list, []kernel.Neighbor{four, six}) {
		t.Errorf("%v %v", list, err)
	}
	four.MAC = "02:00:00:00:00:03"
	if err := b.ReplaceNeighbor(b.Own(), four); err != nil {
		t.Error(err)
	}
	if got, err := b.Neighbor(b.Own(), l.Index, four.Address); err != nil || got != four {
		t.Errorf("%v %v", got, err)
	}
	for _, want := range []error{nil, kernel.ErrNotExist} {
		if err := b.DeleteNeighbor(b.Own(), six); !errors.Is(err, want) {
			t.Errorf("deleted: %v, want %v", err, want)
		}
	}
	b.shown(t, "10.0.0.2 lladdr 02:00:00:00:00:03 PERMANENT proto openr")
}

// TestLearntNeighbors: what the kernel has learnt is nobody's. It is not listed, nothing is
// told of it, and it gives way.
func TestLearntNeighbors(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := pair(t, b)
	w := watch(t, b)
	b.own.IP(t, "neigh add 10.0.0.2 lladdr 02:00:00:00:00:09 dev a0 nud stale")
	if list, err := b.Neighbors(b.Own()); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	if n, err := b.Neighbor(b.Own(), l.Index, addr("10.0.0.2")); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("%v %v", n, err)
	}
	n := kernel.Neighbor{Index: l.Index, Address: addr("10.0.0.2"), MAC: "02:00:00:00:00:01", Protocol: ours}
	if err := b.AddNeighbor(b.Own(), n); err != nil {
		t.Fatal(err)
	}
	b.shown(t, "10.0.0.2 lladdr 02:00:00:00:00:01 PERMANENT proto openr")
	w.until(t, "the neighbor", func(ev kernel.Event) bool {
		if ev.Neighbor != nil && ev.Neighbor.MAC != n.MAC {
			t.Errorf("told of %v", *ev.Neighbor)
		}
		return ev.Neighbor != nil && *ev.Neighbor == n && !ev.Deleted
	})
}

// TestNeighborEvents: one that was ours is told of when it stops to be permanent, when it
// is removed, and when its link goes down.
func TestNeighborEvents(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := pair(t, b)
	n := kernel.Neighbor{Index: l.Index, Address: addr("10.0.0.2"), MAC: "02:00:00:00:00:01", Protocol: ours}
	for _, c := range []string{"neigh replace 10.0.0.2 lladdr 02:00:00:00:00:01 dev a0 nud stale", "neigh del 10.0.0.2 dev a0", "link set a0 down", "link del a0"} {
		if err := b.ReplaceNeighbor(b.Own(), n); err != nil {
			t.Fatal(err)
		}
		w := watch(t, b)
		b.own.IP(t, c)
		w.until(t, c, func(ev kernel.Event) bool {
			return ev.Neighbor != nil && ev.Deleted && ev.Neighbor.Address == n.Address
		})
	}
}

func TestNeighborsRefused(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	for _, n := range []kernel.Neighbor{
		{Address: addr("10.0.0.2"), MAC: "02:00:00:00:00:01"},
		{Index: 1, MAC: "02:00:00:00:00:01"},
		{Index: 1, Address: addr("10.0.0.2")},
		{Index: 1, Address: addr("::ffff:10.0.0.2"), MAC: "02:00:00:00:00:01"},
		{Index: 9999, Address: addr("10.0.0.2"), MAC: "02:00:00:00:00:01"},
	} {
		if err := b.AddNeighbor(b.Own(), n); err == nil {
			t.Errorf("%v was taken", n)
		}
	}
}

// shown compares the permanent neighbors of a0 with what ip says.
func (b *bench) shown(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(b.own.IP(t, "neigh show dev a0 nud permanent")) {
		got = append(got, strings.TrimSpace(line))
	}
	slices.Sort(got)
	if got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "ff02:") || strings.HasPrefix(s, "224.") }); !slices.Equal(got, want) {
		t.Errorf("ip shows %q, want %q", got, want)
	}
}
