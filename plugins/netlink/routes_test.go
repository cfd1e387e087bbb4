package netlink_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

const ours = 99 // a protocol number

// routed is a pair with addresses on which routes can stand.
func routed(t *testing.T, b *bench) kernel.Link {
	t.Helper()
	l := pair(t, b)
	for _, p := range []string{"10.0.0.1/24", "fd00::1/64"} {
		if err := b.AddAddress(b.Own(), kernel.Address{Index: l.Index, Prefix: prefix(p), NoDetection: true}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// oursOf are the routes with our protocol.
func oursOf(t *testing.T, b *bench) []kernel.Route {
	t.Helper()
	list, err := b.Routes(b.Own())
	if err != nil {
		t.Fatal(err)
	}
	return without(list, func(r kernel.Route) bool { return r.Protocol != ours })
}

func TestRoutes(t *testing.T) {
	cases := []struct {
		name  string
		give  func(dev int) kernel.Route
		want  func(r *kernel.Route) // what the kernel makes of it
		shown string                // a line of ip route
	}{
		{name: "gateway",
			give: func(dev int) kernel.Route {
				return kernel.Route{Dst: prefix("10.9.0.0/16"), Gateway: addr("10.0.0.2"), Index: dev}
			},
			want:  func(r *kernel.Route) { r.Scope = "global" },
			shown: "10.9.0.0/16 via 10.0.0.2 dev a0 proto openr"},
		{name: "host bits", give: func(dev int) kernel.Route { return kernel.Route{Dst: prefix("10.9.1.2/16"), Index: dev} },
			want:  func(r *kernel.Route) { r.Dst, r.Scope = prefix("10.9.0.0/16"), "link" },
			shown: "10.9.0.0/16 dev a0 proto openr scope link"},
		{name: "default with metric, source and mtu",
			give: func(dev int) kernel.Route {
				return kernel.Route{Dst: prefix("0.0.0.0/0"), Gateway: addr("10.0.0.2"), Index: dev, Metric: 7, Src: addr("10.0.0.1"), MTU: 1300}
			},
			want:  func(r *kernel.Route) { r.Scope = "global" },
			shown: "default via 10.0.0.2 dev a0 proto openr src 10.0.0.1 metric 7 mtu 1300"},
		{name: "onlink",
			give: func(dev int) kernel.Route {
				return kernel.Route{Dst: prefix("10.9.0.0/16"), Gateway: addr("192.0.2.1"), Index: dev, Onlink: true}
			},
			want:  func(r *kernel.Route) { r.Scope = "global" },
			shown: "10.9.0.0/16 via 192.0.2.1 dev a0 proto openr onlink"},
		{name: "small table", give: func(dev int) kernel.Route { return kernel.Route{Dst: prefix("10.9.0.0/16"), Index: dev, Table: 77} },
			want: func(r *kernel.Route) { r.Scope = "link" }, shown: "10.9.0.0/16 dev a0 table 77 proto openr scope link"},
		{name: "big table", give: func(dev int) kernel.Route { return kernel.Route{Dst: prefix("10.9.0.0/16"), Index: dev, Table: 70000} },
			want: func(r *kernel.Route) { r.Scope = "link" }, shown: "10.9.0.0/16 dev a0 table 70000 proto openr scope link"},
		{name: "blackhole", give: func(int) kernel.Route { return kernel.Route{Dst: prefix("10.9.0.0/16"), Type: "blackhole"} },
			want: func(r *kernel.Route) { r.Scope = "global" }, shown: "blackhole 10.9.0.0/16 proto openr"},
		{name: "unreachable", give: func(int) kernel.Route { return kernel.Route{Dst: prefix("10.9.0.0/16"), Type: "unreachable"} },
			want: func(r *kernel.Route) { r.Scope = "global" }, shown: "unreachable 10.9.0.0/16 proto openr"},
		{name: "two ways",
			give: func(dev int) kernel.Route {
				return kernel.Route{Dst: prefix("10.9.0.0/16"), NextHops: []kernel.NextHop{
					{Index: dev, Gateway: addr("10.0.0.2"), Weight: 1}, {Index: dev, Gateway: addr("10.0.0.3"), Weight: 5}}}
			},
			want:  func(r *kernel.Route) { r.Scope = "global" },
			shown: "nexthop via 10.0.0.3 dev a0 weight 5"},
		{name: "IPv4 over IPv6",
			give: func(dev int) kernel.Route {
				return kernel.Route{Dst: prefix("10.9.0.0/16"), Gateway: addr("fd00::2"), Index: dev}
			},
			want:  func(r *kernel.Route) { r.Scope = "global" },
			shown: "10.9.0.0/16 via inet6 fd00::2 dev a0 proto openr"},
		{name: "IPv6 without metric", give: func(dev int) kernel.Route {
			return kernel.Route{Dst: prefix("fd09::/64"), Gateway: addr("fd00::2"), Index: dev}
		},
			want:  func(r *kernel.Route) { r.Metric, r.Scope = 1024, "global" },
			shown: "fd09::/64 via fd00::2 dev a0 proto openr metric 1024"},
		{name: "IPv6 default with metric and source",
			give: func(dev int) kernel.Route {
				return kernel.Route{Dst: prefix("::/0"), Gateway: addr("fd00::2"), Index: dev, Metric: 5, Src: addr("fd00::1")}
			},
			want:  func(r *kernel.Route) { r.Scope = "global" },
			shown: "default via fd00::2 dev a0 proto openr src fd00::1 metric 5"},
		{name: "IPv6 two ways",
			give: func(dev int) kernel.Route {
				return kernel.Route{Dst: prefix("fd09::/64"), NextHops: []kernel.NextHop{
					{Index: dev, Gateway: addr("fd00::2"), Weight: 1}, {Index: dev, Gateway: addr("fd00::3"), Weight: 2}}}
			},
			want:  func(r *kernel.Route) { r.Metric, r.Scope = 1024, "global" },
			shown: "nexthop via fd00::3 dev a0 weight 2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newKernel(t, netlink.Options{})
			l := routed(t, b)
			r := c.give(l.Index)
			r.Protocol = ours
			if err := b.AddRoute(b.Own(), r); err != nil {
				t.Fatal(err)
			}
			shown := b.own.IP(t, "route show table all") + b.own.IP(t, "-6 route show table all")
			if !strings.Contains(strings.Join(strings.Fields(shown), " "), c.shown) {
				t.Errorf("ip shows\n%s", shown)
			}
			want := r
			want.Type = "unicast"
			if r.Type != "" {
				want.Type = r.Type
			}
			if want.Table == 0 {
				want.Table = 254
			}
			c.want(&want)
			if got := oursOf(t, b); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
				t.Errorf("read %+v\nwant %+v", got, want)
			}
			if err := b.AddRoute(b.Own(), r); !errors.Is(err, kernel.ErrExist) {
				t.Errorf("again: %v", err)
			}
			if err := b.DeleteRoute(b.Own(), r); err != nil {
				t.Fatal(err)
			}
			if got := oursOf(t, b); len(got) != 0 {
				t.Errorf("left %+v", got)
			}
			if err := b.DeleteRoute(b.Own(), r); !errors.Is(err, kernel.ErrNotExist) {
				t.Errorf("deleted twice: %v", err)
			}
		})
	}
}

// A route of somebody else with the same identity is neither replaced nor given
// a second way, whatever its gateway.
func TestForeignRouteIsUntouched(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := routed(t, b)
	b.own.IP(t, "route add 10.9.0.0/16 via 10.0.0.3 proto static")
	b.own.IP(t, "-6 route add fd09::/64 via fd00::3 proto static")
	before := b.own.IP(t, "route") + b.own.IP(t, "-6 route")
	for dst, gateway := range map[string]string{"10.9.0.0/16": "10.0.0.2", "fd09::/64": "fd00::2"} {
		r := kernel.Route{Dst: prefix(dst), Gateway: addr(gateway), Index: l.Index, Protocol: ours}
		if err := b.AddRoute(b.Own(), r); !errors.Is(err, kernel.ErrExist) {
			t.Errorf("%s: %v", dst, err)
		}
		two := kernel.Route{Dst: prefix(dst), Protocol: ours, NextHops: []kernel.NextHop{
			{Index: l.Index, Gateway: addr(gateway)}, {Index: l.Index, Gateway: addr(strings.Replace(gateway, "2", "9", 1))}}}
		if err := b.AddRoute(b.Own(), two); !errors.Is(err, kernel.ErrExist) && err == nil {
			t.Errorf("%s, two ways: %v", dst, err)
		}
		// Nor is it deleted for ours: protocol, type, metric and way count.
		for _, r := range []kernel.Route{
			r,
			{Dst: prefix(dst), Gateway: addr(strings.Replace(gateway, "2", "3", 1)), Index: l.Index, Protocol: ours},
			{Dst: prefix(dst), Gateway: addr(gateway), Index: l.Index, Protocol: 4},
			{Dst: prefix(dst), Type: "blackhole", Protocol: 4},
			{Dst: prefix(dst), Gateway: addr(strings.Replace(gateway, "2", "3", 1)), Index: l.Index, Protocol: 4, Metric: 9},
			{Dst: prefix(dst), Gateway: addr(strings.Replace(gateway, "2", "3", 1)), Index: l.Index, Protocol: 4, Table: 77},
		} {
			if err := b.DeleteRoute(b.Own(), r); !errors.Is(err, kernel.ErrNotExist) {
				t.Errorf("delete %+v: %v", r, err)
			}
		}
	}
	if after := b.own.IP(t, "route") + b.own.IP(t, "-6 route"); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

// To the kernel no metric is any metric. The wrong route that it takes for ours
// is put back as it was.
func TestDeleteRouteMindsTheMetric(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := routed(t, b)
	b.own.IP(t, "route add 10.9.0.0/16 via 10.0.0.2 proto openr metric 100 src 10.0.0.1 mtu 1300")
	before := b.own.IP(t, "route")
	r := kernel.Route{Dst: prefix("10.9.0.0/16"), Gateway: addr("10.0.0.2"), Index: l.Index, Protocol: ours}
	if err := b.DeleteRoute(b.Own(), r); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
	if after := b.own.IP(t, "route"); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
	if err := b.AddRoute(b.Own(), r); err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteRoute(b.Own(), r); err != nil {
		t.Error(err)
	}
	if after := b.own.IP(t, "route"); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

// A route by a nexthop is known by the number of that, whatever it leads to.
func TestRoutesByNexthop(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := routed(t, b)
	b.own.IP(t, "link set lo up")
	for _, n := range []kernel.Nexthop{
		{ID: 1, Index: l.Index, Gateway: addr("10.0.0.2")}, {ID: 2, Blackhole: true}, {ID: 3, IPv6: true, Index: l.Index, Gateway: addr("fd00::2")},
		{ID: 4, Group: []kernel.NexthopMember{{ID: 1, Weight: 1}, {ID: 3, Weight: 2}}},
	} {
		if err := b.AddNexthop(b.Own(), n); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dst     string
		nexthop uint32
		shown   string
	}{
		{"10.9.0.0/16", 1, "10.9.0.0/16 nhid 1 via 10.0.0.2 dev a0 proto openr metric 7"},
		{"10.9.0.0/16", 2, "blackhole 10.9.0.0/16 nhid 2 dev lo proto openr metric 7"},
		{"10.9.0.0/16", 4, "10.9.0.0/16 nhid 4 proto openr metric 7"},
		{"fd09::/64", 3, "fd09::/64 nhid 3 via fd00::2 dev a0 proto openr metric 7"},
	} {
		r := kernel.Route{Dst: prefix(c.dst), Nexthop: c.nexthop, Metric: 7, Protocol: ours}
		for _, want := range []error{nil, kernel.ErrExist} {
			if err := b.AddRoute(b.Own(), r); !errors.Is(err, want) {
				t.Errorf("%d: %v, want %v", c.nexthop, err, want)
			}
		}
		got := oursOf(t, b)
		if len(got) != 1 || got[0].Nexthop != c.nexthop || got[0].Type != "unicast" || got[0].Onlink {
			t.Errorf("read %+v", got)
		}
		all := b.own.IP(t, "-4 route") + b.own.IP(t, "-6 route")
		if !strings.Contains(all, c.shown) {
			t.Errorf("ip shows\n%s, want %s", all, c.shown)
		}
		other := r
		if other.Metric = 0; r.Dst.Addr().Is4() { // which is any; what it took is put back
			if err := b.DeleteRoute(b.Own(), other); !errors.Is(err, kernel.ErrNotExist) {
				t.Errorf("%d: deletion of another: %v", c.nexthop, err)
			}
			if again := oursOf(t, b); len(again) != 1 || again[0].Nexthop != c.nexthop {
				t.Errorf("put back %+v", again)
			}
		}
		if err := b.ReplaceRoute(b.Own(), r); err != nil {
			t.Error(err)
		}
		r.Nexthop = 0 // it is found without
		if err := b.DeleteRoute(b.Own(), r); err != nil {
			t.Errorf("%d: %v", c.nexthop, err)
		}
		if left := oursOf(t, b); len(left) != 0 {
			t.Errorf("left %+v", left)
		}
	}
}

func TestReplaceRoute(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := routed(t, b)
	for _, c := range [][3]string{{"10.9.0.0/16", "10.0.0.2", "10.0.0.3"}, {"fd09::/64", "fd00::2", "fd00::3"}} {
		for _, gateway := range c[1:] {
			r := kernel.Route{Dst: prefix(c[0]), Gateway: addr(gateway), Index: l.Index, Protocol: ours}
			if err := b.ReplaceRoute(b.Own(), r); err != nil {
				t.Fatal(err)
			}
			got := without(oursOf(t, b), func(r kernel.Route) bool { return r.Dst != prefix(c[0]) })
			if len(got) != 1 || got[0].Gateway != addr(gateway) || len(got[0].NextHops) != 0 {
				t.Errorf("read %+v", got)
			}
		}
	}
}

// What the kernel keeps for itself in table local is left out; what others put
// there is not.
func TestKernelsOwnRoutes(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	routed(t, b)
	b.own.IP(t, "link set lo up")
	b.own.IP(t, "route add local 10.50.0.0/16 dev lo proto openr")
	list, err := b.Routes(b.Own())
	if err != nil {
		t.Fatal(err)
	}
	var local, made int
	for _, r := range list {
		if r.Table == 255 {
			local++
		}
		if r.Table == 254 && r.Protocol == 2 {
			made++
		}
	}
	// In the main table: the subnets of both addresses, and fe80 of both ends.
	if local != 1 || made != 4 {
		t.Errorf("%d in table local, %d made by the kernel in main: %+v", local, made, list)
	}
}

func TestRouteErrors(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := routed(t, b)
	err := b.AddRoute(b.Own(), kernel.Route{Dst: prefix("10.9.0.0/16"), Gateway: addr("192.0.2.1"), Index: l.Index})
	if err == nil || !strings.Contains(err.Error(), "onlink") {
		t.Errorf("unreachable gateway: %v", err)
	}
	err = b.AddRoute(b.Own(), kernel.Route{Dst: prefix("10.9.0.0/16"), Index: 999})
	if !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("no such link: %v", err)
	}
	before := b.Writes()
	for _, r := range []kernel.Route{{}, {Dst: prefix("10.9.0.0/16"), Type: "nonsense"}, {Dst: prefix("10.9.0.0/16"), Scope: "nonsense"}} {
		if err := b.AddRoute(b.Own(), r); err == nil {
			t.Errorf("%+v was added", r)
		}
	}
	if b.Writes() != before {
		t.Error("the kernel was asked nevertheless")
	}
	b.own.IP(t, "link set a0 down")
	err = b.AddRoute(b.Own(), kernel.Route{Dst: prefix("10.9.0.0/16"), Index: l.Index})
	if err == nil || !strings.Contains(err.Error(), "down") {
		t.Errorf("link is down: %v", err)
	}
}

// Of many routes, those that cannot be added keep none of the others from being added, wherever
// they stand.
func TestAddRoutes(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := routed(t, b)
	const many = 200
	for bad := range 4 { // which of every four is wrong
		var rs []*kernel.Route
		for i := range many {
			r := &kernel.Route{Dst: prefix(fmt.Sprintf("10.%d.%d.0/24", 100+bad, i)), Gateway: addr("10.0.0.2"), Index: l.Index, Protocol: ours}
			if i%4 == bad {
				switch i / 4 % 3 {
				case 0:
					r.Gateway = addr("192.0.2.1")
				case 1:
					r.Dst = rs[i-1].Dst // twice
				default:
					r.Type = "nonsense"
				}
			}
			rs = append(rs, r)
		}
		before := b.Writes()
		errs := b.AddRoutes(b.Own(), rs)
		if len(errs) != many {
			t.Fatalf("%d errors", len(errs))
		}
		asked := uint64(0)
		for i, err := range errs {
			want := ""
			if i%4 == bad {
				want = []string{"onlink", "exists", "no route type"}[i/4%3]
			}
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("route %d of %d: %v", i, bad, err)
			}
			if want != "no route type" {
				asked++
			}
		}
		if n := b.Writes() - before; n != asked {
			t.Errorf("%d writes for %d routes", n, asked)
		}
	}
	if n := len(oursOf(t, b)); n != 4*many*3/4 {
		t.Errorf("%d routes are there", n)
	}
	if errs := b.AddRoutes(b.Own(), nil); len(errs) != 0 {
		t.Errorf("none: %v", errs)
	}
}

// Routes of very many ways do not fit into one datagram together.
func TestAddLargeRoutes(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := routed(t, b)
	const many, ways = 64, 256
	rs := make([]*kernel.Route, many)
	for i := range rs {
		r := &kernel.Route{Dst: prefix(fmt.Sprintf("10.200.%d.0/24", i)), Protocol: ours}
		for j := range ways {
			r.NextHops = append(r.NextHops, kernel.NextHop{Index: l.Index, Gateway: addr("10.0.0.2"), Weight: j + 1})
		}
		rs[i] = r
	}
	if err := errors.Join(b.AddRoutes(b.Own(), rs)...); err != nil {
		t.Error(err)
	}
	if n := len(oursOf(t, b)); n != many {
		t.Errorf("%d routes are there", n)
	}
}
