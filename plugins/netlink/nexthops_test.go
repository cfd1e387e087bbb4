package netlink_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// nexthops is a namespace with two links that are up and have an address, and a loopback.
func nexthops(t *testing.T) (b *bench, first, second kernel.Link) {
	t.Helper()
	b = newKernel(t, netlink.Options{})
	b.own.IP(t, "link set lo up")
	links := map[string]kernel.Link{}
	for name, address := range map[string]string{"a": "10.0.0.1/24", "b": "10.0.1.1/24"} {
		l, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: name, Bridge: &kernel.BridgeSpec{}, Up: true})
		if err != nil {
			t.Fatal(err)
		}
		links[name] = l
		b.own.IP(t, "addr add "+address+" dev "+name)
	}
	return b, links["a"], links["b"]
}

func TestNexthops(t *testing.T) {
	b, first, second := nexthops(t)
	w := watch(t, b)
	addr := netip.MustParseAddr
	for _, c := range []struct {
		nexthop, instead kernel.Nexthop
		shown, then      string // by ip nexthop
	}{
		{
			kernel.Nexthop{ID: 1, Index: first.Index, Gateway: addr("10.0.0.9")}, kernel.Nexthop{ID: 1, Index: second.Index, Gateway: addr("10.0.1.9")},
			"id 1 via 10.0.0.9 dev a scope link proto openr", "id 1 via 10.0.1.9 dev b scope link proto openr",
		},
		{
			kernel.Nexthop{ID: 2, Index: second.Index}, kernel.Nexthop{ID: 2, Index: second.Index, IPv6: true, Gateway: addr("fd00::9"), Onlink: true},
			"id 2 dev b scope host proto openr", "id 2 via fd00::9 dev b scope link proto openr onlink",
		},
		{
			kernel.Nexthop{ID: 4294967295, Group: []kernel.NexthopMember{{ID: 1, Weight: 255}, {ID: 2, Weight: 1}}},
			kernel.Nexthop{ID: 4294967295, Group: []kernel.NexthopMember{{ID: 2, Weight: 3}}},
			"id 4294967295 group 1,255/2 proto openr", "id 4294967295 group 2,3 proto openr",
		},
		{
			kernel.Nexthop{ID: 3, Blackhole: true}, kernel.Nexthop{ID: 3, Index: first.Index},
			"id 3 blackhole proto openr", "id 3 dev a scope host proto openr",
		},
		{
			kernel.Nexthop{ID: 4, Blackhole: true, IPv6: true}, kernel.Nexthop{ID: 4, Blackhole: true},
			"id 4 blackhole proto openr", "id 4 blackhole proto openr",
		},
	} {
		c.nexthop.Protocol, c.instead.Protocol = ours, ours
		sees := func(want kernel.Nexthop, shown string) {
			t.Helper()
			list, err := b.Nexthops(b.Own())
			if is := func(n kernel.Nexthop) bool { return n.Equal(want) }; err != nil || !slices.ContainsFunc(list, is) {
				t.Errorf("%v %v is not among %v", err, want, list)
			}
			if got := b.own.IP(t, "nexthop show"); !strings.Contains(got, shown) {
				t.Errorf("ip shows\n%s, want %s", got, shown)
			}
			w.until(t, shown, func(ev kernel.Event) bool {
				return ev.Nexthop != nil && !ev.Deleted && ev.Nexthop.Equal(want)
			})
		}
		if err := b.ReplaceNexthop(b.Own(), c.nexthop); !errors.Is(err, kernel.ErrNotExist) {
			t.Errorf("replacement of none: %v", err)
		}
		for _, want := range []error{nil, kernel.ErrExist} {
			if err := b.AddNexthop(b.Own(), c.nexthop); !errors.Is(err, want) {
				t.Errorf("%v: %v, want %v", c.nexthop, err, want)
			}
		}
		sees(c.nexthop, c.shown)
		if err := b.ReplaceNexthop(b.Own(), c.instead); err != nil {
			t.Error(err)
		}
		sees(c.instead, c.then)
	}
	for _, want := range []error{nil, kernel.ErrNotExist} {
		if err := b.DeleteNexthop(b.Own(), 2); !errors.Is(err, want) {
			t.Errorf("deletion: %v, want %v", err, want)
		}
	}
	for _, id := range []uint32{2, 4294967295} { // a group that is empty goes as well
		w.until(t, "its end", func(ev kernel.Event) bool { return ev.Nexthop != nil && ev.Nexthop.ID == id && ev.Deleted })
	}
}

// TestNexthopsGo: with their link, and when it goes down, and from the groups that had them.
// The kernel says nothing of it.
func TestNexthopsGo(t *testing.T) {
	b, first, second := nexthops(t)
	for _, n := range []kernel.Nexthop{
		{ID: 1, Index: first.Index}, {ID: 2, Index: second.Index}, {ID: 3, Blackhole: true},
		{ID: 12, Group: []kernel.NexthopMember{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}}},
	} {
		if err := b.AddNexthop(b.Own(), n); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want string) {
		t.Helper()
		if got := strings.Join(strings.Fields(b.own.IP(t, "nexthop show")), " "); got != want {
			t.Errorf("ip shows %q, want %q", got, want)
		}
	}
	b.own.IP(t, "link set dev a down")
	left("id 2 dev b scope host id 3 blackhole id 12 group 2")
	b.own.IP(t, "link set dev a up")
	left("id 2 dev b scope host id 3 blackhole id 12 group 2")
	b.own.IP(t, "link del dev b")
	b.own.IP(t, "link set lo down")
	left("id 3 blackhole")
	if err := b.AddNexthop(b.Own(), kernel.Nexthop{ID: 4, Blackhole: true}); err == nil {
		t.Error("a blackhole was made while the loopback is down")
	}
}

// TestNexthopsThatSayMore: one with something that the port does not show is told from one
// without it.
func TestNexthopsThatSayMore(t *testing.T) {
	b, _, _ := nexthops(t)
	b.own.IP(t, "nexthop add id 1 dev a")
	b.own.IP(t, "nexthop add id 2 group 1 type resilient buckets 8")
	b.own.IP(t, "nexthop add id 3 via 10.0.0.9 fdb")
	list, err := b.Nexthops(b.Own())
	if err != nil || len(list) != 3 || list[0].More || !list[1].More || !list[2].More {
		t.Errorf("%v %v", list, err)
	}
}

func TestNexthopsRefused(t *testing.T) {
	b, first, _ := nexthops(t)
	for _, n := range []kernel.Nexthop{
		{Index: first.Index}, {ID: 1, Index: first.Index, More: true}, {ID: 1, Index: -1},
		{ID: 1, Group: []kernel.NexthopMember{{ID: 1, Weight: 0}}}, {ID: 1, Group: []kernel.NexthopMember{{ID: 7, Weight: 1}}},
		{ID: 1, Index: first.Index, Gateway: netip.MustParseAddr("192.0.2.1")},
	} {
		if err := b.AddNexthop(b.Own(), n); err == nil {
			t.Errorf("%v was taken", n)
		}
	}
}
