package netlink_test

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// pair makes a veth whose ends are up, so that its routes and addresses work.
// The kernel gives both ends their link-local addresses a moment later.
func pair(t *testing.T, b *bench) kernel.Link {
	t.Helper()
	l := b.add(t, b.Own(), kernel.LinkSpec{Name: "a0", Up: true, MAC: "02:00:00:00:00:01",
		Veth: &kernel.VethSpec{PeerName: "a1", PeerUp: true, PeerMAC: "02:00:00:00:00:02"}})
	netlinktest.Eventually(t, "link-local addresses and their routes", func() bool {
		addresses, err1 := b.Addresses(b.Own(), 0)
		routes, err2 := b.Routes(b.Own())
		return err1 == nil && err2 == nil && len(addresses) == 2 && len(routes) == 2
	})
	return l
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// shownAddress is what ip shows of an address on a0.
func shownAddress(t *testing.T, b *bench, local string) map[string]any {
	t.Helper()
	for _, l := range b.own.JSON(t, "addr show dev a0") {
		list, _ := l["addr_info"].([]any)
		for _, a := range list {
			if m := a.(map[string]any); m["local"] == local {
				return m
			}
		}
	}
	return nil
}

func TestAddAddress(t *testing.T) {
	cases := []struct {
		name  string
		give  kernel.Address
		want  kernel.Address // as read back
		shown map[string]any
	}{
		{name: "host bits are kept", give: kernel.Address{Prefix: prefix("10.0.0.7/24")},
			want:  kernel.Address{Prefix: prefix("10.0.0.7/24"), Label: "a0"},
			shown: map[string]any{"prefixlen": 24.0, "scope": "global", "broadcast": nil}},
		{name: "label, scope, broadcast, protocol",
			give:  kernel.Address{Prefix: prefix("10.0.0.7/24"), Label: "a0:web", Scope: unix.RT_SCOPE_LINK, Broadcast: addr("10.0.0.255"), Protocol: 99},
			want:  kernel.Address{Prefix: prefix("10.0.0.7/24"), Label: "a0:web", Scope: unix.RT_SCOPE_LINK, Broadcast: addr("10.0.0.255"), Protocol: 99},
			shown: map[string]any{"label": "a0:web", "scope": "link", "broadcast": "10.0.0.255"}},
		{name: "with an end, and not taken for a daemon's",
			give:  kernel.Address{Prefix: prefix("10.0.0.7/32"), Valid: 5000, Preferred: 4000},
			want:  kernel.Address{Prefix: prefix("10.0.0.7/32"), Label: "a0", Valid: 5000, Preferred: 4000, Protocol: 0x50},
			shown: map[string]any{"dynamic": true, "valid_life_time": 5000.0, "preferred_life_time": 4000.0}},
		{name: "IPv6 with the detection of duplicates", give: kernel.Address{Prefix: prefix("fd00::7/64")},
			want:  kernel.Address{Prefix: prefix("fd00::7/64")},
			shown: map[string]any{"prefixlen": 64.0, "nodad": nil}},
		{name: "IPv6 is usable at once", give: kernel.Address{Prefix: prefix("fd00::7/64"), NoDetection: true},
			want:  kernel.Address{Prefix: prefix("fd00::7/64"), NoDetection: true},
			shown: map[string]any{"prefixlen": 64.0, "tentative": nil, "nodad": true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newKernel(t, netlink.Options{})
			l := pair(t, b)
			c.give.Index, c.want.Index = l.Index, l.Index
			if err := b.AddAddress(b.Own(), c.give); err != nil {
				t.Fatal(err)
			}
			shown := shownAddress(t, b, c.give.Prefix.Addr().String())
			for key, v := range c.shown {
				if left, ok := shown[key].(float64); ok && strings.HasSuffix(key, "_life_time") && left > v.(float64)-30 {
					continue // seconds may have passed
				}
				if !reflect.DeepEqual(shown[key], v) {
					t.Errorf("ip shows %s %v, want %v", key, shown[key], v)
				}
			}
			if err := b.AddAddress(b.Own(), c.give); !errors.Is(err, kernel.ErrExist) {
				t.Errorf("again: %v", err)
			}
			list, err := b.Addresses(b.Own(), l.Index)
			if err != nil {
				t.Fatal(err)
			}
			got := without(list, kernelMade)
			for i := range got {
				got[i].Tentative = false // for a moment
				got[i].Age = 0           // seconds may have passed, a minute on an emulated processor
				for _, left := range []struct{ got, want *uint32 }{{&got[i].Valid, &c.want.Valid}, {&got[i].Preferred, &c.want.Preferred}} {
					if *left.got < *left.want && *left.want-*left.got < 60 {
						*left.got = *left.want
					}
				}
			}
			if !reflect.DeepEqual(got, []kernel.Address{c.want}) {
				t.Errorf("read %+v", got)
			}
			if err := b.DeleteAddress(b.Own(), c.give); err != nil {
				t.Error(err)
			}
			if shownAddress(t, b, c.give.Prefix.Addr().String()) != nil {
				t.Error("still there")
			}
			if err := b.DeleteAddress(b.Own(), c.give); !errors.Is(err, kernel.ErrNotExist) {
				t.Errorf("deleted twice: %v", err)
			}
		})
	}
}

func kernelMade(a kernel.Address) bool { return a.Kernel }

func without[T any](list []T, is func(T) bool) (rest []T) {
	for _, v := range list {
		if !is(v) {
			rest = append(rest, v)
		}
	}
	return rest
}

// TestChangeAddress: lifetimes are set anew while the address is there, and it is told how
// long ago that was.
func TestChangeAddress(t *testing.T) {
	for _, p := range []string{"10.0.0.7/24", "fd00::7/64"} {
		b := newKernel(t, netlink.Options{})
		l := pair(t, b)
		a := kernel.Address{Index: l.Index, Prefix: prefix(p), Valid: 600, Preferred: 300, Protocol: 99, NoDetection: prefix(p).Addr().Is6()}
		if err := b.AddAddress(b.Own(), a); err != nil {
			t.Fatal(err)
		}
		read := func() kernel.Address {
			t.Helper()
			list, err := b.Addresses(b.Own(), l.Index)
			for _, x := range list {
				if x.Prefix == a.Prefix {
					return x
				}
			}
			t.Fatal(err, "not there")
			return a
		}
		// What others change is theirs from then on, and ours again when we do.
		b.own.IP(t, "addr change "+p+" dev a0 valid_lft 5000 preferred_lft 0")
		if x := read(); x.Valid+x.Age < 5000 || x.Valid+x.Age > 5002 || !x.Deprecated || x.Preferred != 0 {
			t.Errorf("%s changed by ip: %+v", p, x)
		}
		for _, c := range []kernel.Address{{Valid: 700, Preferred: 700}, {Valid: 700}, {Valid: 700, Deprecated: true}, {}} {
			c.Index, c.Prefix, c.Protocol = a.Index, a.Prefix, a.Protocol
			if err := b.ChangeAddress(b.Own(), c); err != nil {
				t.Fatal(err)
			}
			x, preferred := read(), c.Valid
			if c.Deprecated {
				preferred = 0
			}
			if x.Valid+x.Age < c.Valid || x.Valid+x.Age > c.Valid+2 || x.Deprecated != c.Deprecated || x.Preferred > preferred || x.Preferred+2 < preferred || x.Protocol != 99 {
				t.Errorf("%s changed to %+v: %+v", p, c, x)
			}
		}
		// It ages; set anew it is young.
		c := kernel.Address{Index: a.Index, Prefix: a.Prefix, Valid: 1000, Protocol: 99}
		if err := b.ChangeAddress(b.Own(), c); err != nil {
			t.Fatal(err)
		}
		netlinktest.Eventually(t, "two seconds have passed", func() bool { x := read(); return x.Age >= 2 && x.Valid <= 998 })
		if x := read(); x.Valid+x.Age < 1000 || x.Valid+x.Age > 1002 {
			t.Errorf("%s: %+v", p, x)
		}
		if err := b.DeleteAddress(b.Own(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// Who made an address shows: the kernel, a daemon that runs its lifetime, or a
// person.
func TestWhoMadeAnAddress(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := pair(t, b)
	b.own.IP(t, "link set lo up")
	b.own.IP(t, "addr add 10.0.0.1/24 dev a0")
	b.own.IP(t, "addr add 10.0.1.1/24 dev a0 valid_lft 600 preferred_lft 300")
	b.own.IP(t, "addr add fe80::99/64 dev a0")
	list, err := b.Addresses(b.Own(), 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, a := range list {
		got[a.Prefix.String()] = a.Kernel
	}
	want := map[string]bool{
		"127.0.0.1/8": true, "::1/128": true, "fe80::ff:fe00:1/64": true, "fe80::ff:fe00:2/64": true,
		"10.0.0.1/24": false, "10.0.1.1/24": true, "fe80::99/64": false,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %v\nwant %v", got, want)
	}
	if _, err := b.Addresses(b.Own(), 999); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("of no link: %v", err)
	}
	if one, err := b.Addresses(b.Own(), l.Index); err != nil || len(one) != 4 {
		t.Errorf("of one link: %+v, %v", one, err)
	}
}

// TestMadeWithoutSaying: what the kernel has made and not said so is told by what it looks
// like; on kernels that name nobody that is all that is good on its link only.
func TestMadeWithoutSaying(t *testing.T) {
	for _, c := range []struct {
		prefix       string
		scope        int
		since, older bool // by a kernel that names makers, and by one that does not
	}{
		{"127.0.0.1/8", unix.RT_SCOPE_HOST, true, true},
		{"127.0.0.1/8", unix.RT_SCOPE_UNIVERSE, false, false},
		{"fe80::c000:201/64", unix.RT_SCOPE_LINK, true, true}, // of a sit
		{"fe80::99/64", unix.RT_SCOPE_LINK, false, true},
		{"fe80::c000:201/128", unix.RT_SCOPE_LINK, false, false},
		{"::192.0.2.1/96", unix.RT_SCOPE_UNIVERSE, true, true}, // of a sit with many other ends
		{"fe80::ff:fe00:1/64", unix.RT_SCOPE_LINK, false, true},
		{"169.254.0.1/16", unix.RT_SCOPE_LINK, false, false},
		{"fd00::1/64", unix.RT_SCOPE_UNIVERSE, false, false},
	} {
		p := netip.MustParsePrefix(c.prefix)
		for named, want := range map[bool]bool{true: c.since, false: c.older} {
			if got := netlink.Unnamed(kernel.Address{Prefix: p, Scope: c.scope}, named); got != want {
				t.Errorf("%s, scope %d, makers are named %v: %v, want %v", c.prefix, c.scope, named, got, want)
			}
		}
	}
}

// Deleting a primary address takes its secondaries with it; who does that has
// to know which they are.
func TestSecondaryAddresses(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := pair(t, b)
	for _, p := range []string{"10.0.0.1/24", "10.0.0.2/24", "10.0.1.1/24"} {
		if err := b.AddAddress(b.Own(), kernel.Address{Index: l.Index, Prefix: prefix(p)}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := b.Addresses(b.Own(), l.Index)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, a := range without(list, kernelMade) {
		got[a.Prefix.String()] = a.Secondary
	}
	if want := map[string]bool{"10.0.0.1/24": false, "10.0.0.2/24": true, "10.0.1.1/24": false}; !reflect.DeepEqual(got, want) {
		t.Errorf("read %v", got)
	}
	if shown := shownAddress(t, b, "10.0.0.2"); shown["secondary"] != true {
		t.Errorf("ip shows %v", shown)
	}
}

// Equal addresses with different lengths are different addresses.
func TestDeleteAddressMinds(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := pair(t, b)
	b.own.IP(t, "addr add 10.0.0.1/24 dev a0")
	b.own.IP(t, "addr add 10.0.0.1/16 dev a0")
	if err := b.DeleteAddress(b.Own(), kernel.Address{Index: l.Index, Prefix: prefix("10.0.0.1/16")}); err != nil {
		t.Fatal(err)
	}
	if shown := shownAddress(t, b, "10.0.0.1"); shown["prefixlen"] != 24.0 {
		t.Errorf("left %v", shown)
	}
	if err := b.DeleteAddress(b.Own(), kernel.Address{Index: l.Index, Prefix: prefix("10.0.0.1/20")}); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("another length: %v", err)
	}
}

func TestDisabledIPv6(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := pair(t, b)
	b.own.Sysctl(t, "ipv6/conf/a0/disable_ipv6", "1")
	err := b.AddAddress(b.Own(), kernel.Address{Index: l.Index, Prefix: prefix("fd00::1/64")})
	if err == nil || !strings.Contains(err.Error(), "disable_ipv6") {
		t.Errorf("error is %v", err)
	}
	if b.own.Run(t, "cat", "/proc/sys/net/ipv6/conf/a0/disable_ipv6") != "1\n" {
		t.Error("the setting was changed")
	}
}

func TestBadAddresses(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	before := b.Writes()
	for _, a := range []kernel.Address{
		{Index: 1},
		{Prefix: prefix("10.0.0.1/24")},
		{Index: 1, Prefix: netip.PrefixFrom(addr("::ffff:10.0.0.1"), 120)},
	} {
		if b.AddAddress(b.Own(), a) == nil || b.DeleteAddress(b.Own(), a) == nil {
			t.Errorf("%+v was taken", a)
		}
	}
	if b.Writes() != before {
		t.Error("the kernel was asked nevertheless")
	}
	if err := b.AddAddress(b.Own(), kernel.Address{Index: 999, Prefix: prefix("10.0.0.1/24")}); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("no such link: %v", err)
	}
}
