package route_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	"github.com/plumb-net/plumb/descriptors/route"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

const label = "host7"

// bench is the kind on a live kernel, with stand-ins for the scheduler and the
// interface kind: links a, b (10.0.0.1/24, 10.0.1.1/24, fd00::1/64,
// fd00:1::1/64) in the agent's namespace and c (10.0.2.1/24) in blue. The nexthops n, m, six
// and hole have the numbers 1 to 4 in the agent's namespace.
type bench struct {
	*hosttest.Host
	t         *testing.T
	net, blue *netlinktest.Namespace
	blueNS    kernel.NS
	ledger    *kernel.MemLedger
	names     *kernel.Names
	links     kindtest.Links
	fail      string
	kind      scheduler.Descriptor[*models.Route, kernel.LinkRef]
	in        map[scheduler.Key]known
	unwanted  map[scheduler.Key]bool // by the scheduler
}

type (
	known = scheduler.Known[*models.Route, kernel.LinkRef]
	scope = scheduler.Scope[*models.Route, kernel.LinkRef]
)

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	b := &bench{Host: h, t: t, net: h.Net, ledger: &kernel.MemLedger{}, links: kindtest.Links{}, in: map[scheduler.Key]known{}, unwanted: map[scheduler.Key]bool{}}
	b.names, b.blue = &kernel.Names{}, &netlinktest.Namespace{}
	b.blueNS, b.blue.Path = h.Named(t, "blue")
	b.restart()
	b.link(b.Own(), "", "a", "10.0.0.1/24", "fd00::1/64")
	b.link(b.Own(), "", "b", "10.0.1.1/24", "fd00:1::1/64")
	b.link(b.blueNS, b.blue.Path, "c", "10.0.2.1/24")
	b.nexthops()
	return b
}

var errCrash = errors.New("crash")

func (b *bench) restart() {
	owner := kernel.NewOwner(label, "boot", b.ledger, func(name string) error {
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.kind = route.New(route.Deps{Kernel: b.Kernel, Owner: owner, Names: b.names, Places: b, Interfaces: b.links, Claims: held{},
		Nexthops: func(k scheduler.Key) (*models.Nexthop, kernel.LinkRef, bool) {
			e, there := b.ledger.Get(string(k))
			return nexthopOf(e), kernel.LinkRef{NS: e.NS}, there
		},
		Wanted: func(k scheduler.Key) bool { return !b.unwanted[k] }})
}

// held are the claims that there are.
type held struct{}

func (held) Prefix(claim string) (netip.Prefix, bool) {
	p, ok := map[string]string{"web": "10.3.0.7/24", "web6": "fd03::7/64"}[claim]
	return netip.MustParsePrefix(cmp.Or(p, "0.0.0.0/0")), ok
}

func (held) Need(claim string) scheduler.Need {
	return scheduler.On(scheduler.Key(models.IPClaimKey(claim)), "the claim")
}

func (b *bench) link(ns kernel.NS, path, name string, addresses ...string) {
	b.t.Helper()
	l, err := b.AddLink(ns, kernel.LinkSpec{Name: name, Bridge: &kernel.BridgeSpec{}, Up: true})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range addresses {
		b.Do(b.t, ns, "ip addr add "+a+" dev "+name+" nodad")
	}
	key := models.InterfaceKey(name)
	b.links[scheduler.Key(key)] = l.Ref()
	b.names.Put(l.Ref(), name)
	if err := b.ledger.Add(kernel.Entry{ID: key, NS: ns, NSPath: path, Boot: "boot"}); err != nil {
		b.t.Fatal(err)
	}
}

// nexthops makes some, as the kind of nexthops would.
func (b *bench) nexthops() {
	b.t.Helper()
	b.Do(b.t, b.Own(), "ip link set lo up")
	for i, what := range []string{"n via 10.0.0.9 dev a", "m via 10.0.1.9 dev b", "six via fd00::9 dev a", "hole blackhole"} {
		name, says, _ := strings.Cut(what, " ")
		b.Do(b.t, b.Own(), fmt.Sprintf("ip nexthop add id %d %s", i+1, says))
		e := kernel.Entry{ID: models.NexthopKey(name), NS: b.Own(), Boot: "boot",
			Value: models.Encode(&models.Nexthop{Id: uint32(i + 1), Blackhole: true, Family: "ipv4"})}
		if err := b.ledger.Add(e); err != nil {
			b.t.Fatal(err)
		}
	}
}

func nexthopOf(e kernel.Entry) *models.Nexthop {
	v, _ := models.DecodeValue[*models.Nexthop](e.Value)
	return v
}

func (b *bench) Resolve(_ context.Context, in *models.Namespace) (selector.Place, error) {
	if in.GetIn() == nil {
		return selector.Place{NS: b.Own()}, nil
	}
	return selector.Place{NS: b.blueNS, Path: b.blue.Path}, nil
}

func (b *bench) add(name, value string) error {
	b.t.Helper()
	k, v := scheduler.Key(models.RouteKey(name)), decode(b.t, value)[0]
	if err := b.kind.Validate(k, v); err != nil {
		b.t.Fatal(err)
	}
	m, err := b.kind.Create(context.Background(), k, v)
	if err == nil {
		b.in[k] = known{Key: k, Value: v, Meta: m, InPlace: true}
	}
	return err
}

func (b *bench) must(name, value string) {
	b.t.Helper()
	if err := b.add(name, value); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) update(name, value string) {
	b.t.Helper()
	kn := b.in[scheduler.Key(models.RouteKey(name))]
	v := decode(b.t, value)[0]
	m, err := b.kind.Update(context.Background(), kn.Key, kn.Value, v, kn.Meta)
	if err != nil {
		b.t.Fatal(err)
	}
	b.in[kn.Key] = known{Key: kn.Key, Value: v, Meta: m, InPlace: true}
}

func (b *bench) delete(name string) {
	b.t.Helper()
	kn := b.in[scheduler.Key(models.RouteKey(name))]
	if err := b.kind.Delete(context.Background(), kn.Key, kn.Value, kn.Meta); err != nil {
		b.t.Fatal(err)
	}
}

// same checks that exactly the believed routes are found, as they should be.
func (b *bench) same() {
	b.t.Helper()
	all := scope{All: true}
	some := scope{}
	for k, kn := range b.in {
		all.Known, some.Known, some.Keys = append(all.Known, kn), append(some.Known, kn), append(some.Keys, k)
	}
	for _, s := range []scope{all, some} {
		count := 0
		for f, err := range b.kind.Retrieve(context.Background(), s) {
			kn, ok := b.in[f.Key]
			if err != nil || !ok {
				b.t.Errorf("%s: believed %v, error %v", f.Key, ok, err)
				continue
			}
			if verdict := b.kind.Compare(f.Key, f.Value, kn.Value); verdict.Change != scheduler.Same {
				b.t.Errorf("%s: %s", f.Key, verdict.Reason)
			}
			if f.Meta != kn.Meta {
				b.t.Errorf("%s: found at %v, made at %v", f.Key, f.Meta, kn.Meta)
			}
			count++
		}
		if count != len(b.in) {
			b.t.Errorf("found %d of %d routes", count, len(b.in))
		}
	}
}

func (b *bench) shown() string {
	b.t.Helper()
	return b.net.IP(b.t, "-4 route show table all proto "+fmt.Sprint(kernel.Protocol(label))) +
		b.net.IP(b.t, "-6 route show table all proto "+fmt.Sprint(kernel.Protocol(label)))
}

func TestEveryRouteThereAndBack(t *testing.T) {
	for _, c := range []struct{ name, value, changed, ip string }{
		{"link", `{"interface":"a","destination":"10.1.0.0/16"}`, `{"interface":"b","destination":"10.1.0.0/16"}`, "10.1.0.0/16 dev a scope link"},
		{"gateway", `{"interface":"a","destination":"default","gateway":"10.0.0.9","source":"10.0.0.1","metric":7,"mtu":1400}`,
			`{"interface":"a","destination":"default","gateway":"10.0.0.8","metric":7}`, "default via 10.0.0.9 dev a src 10.0.0.1 metric 7 mtu 1400"},
		{"onlink", `{"interface":"a","destination":"10.1.0.0/16","gateway":"192.0.2.1","onlink":true,"table":77}`,
			`{"interface":"a","destination":"10.1.0.0/16","gateway":"192.0.2.2","onlink":true,"table":77}`, "10.1.0.0/16 via 192.0.2.1 dev a table 77 onlink"},
		{"ecmp", `{"destination":"10.1.0.0/16","nexthops":[{"interface":"b","gateway":"10.0.1.9","weight":3},{"interface":"a","gateway":"10.0.0.9"}]}`,
			`{"destination":"10.1.0.0/16","nexthops":[{"interface":"a","gateway":"10.0.0.8"},{"interface":"a","gateway":"10.0.0.9"}]}`, "nexthop via 10.0.1.9 dev b weight 3"},
		{"blackhole", `{"destination":"10.1.0.0/16","type":"blackhole"}`, `{"destination":"10.1.0.0/16","type":"prohibit"}`, "blackhole 10.1.0.0/16"},
		{"unreachable", `{"destination":"10.1.0.0/16","type":"unreachable","metric":9}`, `{"destination":"10.1.0.0/16","type":"throw","metric":9}`, "unreachable 10.1.0.0/16"},
		{"v6", `{"interface":"a","destination":"default","gateway":"fd00::9"}`, `{"interface":"a","destination":"::/0","gateway":"fd00::8","mtu":1300}`, "default via fd00::9 dev a"},
		{"v6link", `{"interface":"a","destination":"fd01::/64","metric":3,"table":500}`, `{"interface":"b","destination":"fd01::/64","metric":3,"table":500}`, "fd01::/64 dev a table 500"},
		{"v6ll", `{"interface":"a","destination":"fd01::/64","gateway":"fe80::9"}`, `{"interface":"b","destination":"fd01::/64","gateway":"fe80::9"}`, "via fe80::9 dev a"},
		{"v6ecmp", `{"destination":"fd01::/64","nexthops":[{"interface":"b","gateway":"fd00:1::9","weight":2},{"interface":"a","gateway":"fd00::9"}]}`,
			`{"destination":"fd01::/64","nexthops":[{"interface":"a","gateway":"fd00::8"},{"interface":"a","gateway":"fd00::9"}]}`, "nexthop via fd00:1::9 dev b weight 2"},
		{"encap", `{"interface":"a","destination":"10.1.0.0/16","encap":{"id":7,"dst":"192.0.2.1"}}`,
			`{"interface":"a","destination":"10.1.0.0/16","encap":{"id":7,"dst":"2001:db8::1","ttl":9}}`, "10.1.0.0/16 encap ip id 7 src 0.0.0.0 dst 192.0.2.1 ttl 0 tos 0 key dev a"},
		{"v6encap", `{"interface":"a","destination":"fd01::/64","encap":{"dst":"192.0.2.1","src":"192.0.2.2","ttl":9,"tos":16}}`,
			`{"interface":"a","destination":"fd01::/64"}`, "fd01::/64 encap ip id 0 src 192.0.2.2 dst 192.0.2.1 ttl 9 tos 16 dev a"},
		{"v6ecmpencap", `{"destination":"fd01::/64","nexthops":[{"interface":"b","gateway":"fe80::9","encap":{"id":7,"dst":"192.0.2.1"}},{"interface":"b","gateway":"fe80::9","encap":{"id":8,"dst":"192.0.2.1"}}]}`,
			`{"destination":"fd01::/64","nexthops":[{"interface":"b","gateway":"fe80::9","encap":{"id":7,"dst":"192.0.2.1"}}]}`, "encap ip id 8 src 0.0.0.0 dst 192.0.2.1 ttl 0 tos 0 key via fe80::9 dev b"},
		{"nexthop", `{"destination":"10.1.0.0/16","nexthop":"n","metric":7,"mtu":1400}`, `{"destination":"10.1.0.0/16","nexthop":"m","metric":7}`, "10.1.0.0/16 nhid 1 via 10.0.0.9 dev a metric 7 mtu 1400"},
		{"to nexthop", `{"interface":"a","destination":"10.1.0.0/16"}`, `{"destination":"10.1.0.0/16","nexthop":"n","source":"10.0.0.1"}`, "10.1.0.0/16 dev a"},
		{"from nexthop", `{"destination":"10.1.0.0/16","nexthop":"hole"}`, `{"interface":"a","destination":"10.1.0.0/16"}`, "blackhole 10.1.0.0/16 nhid 4"},
		{"v6nexthop", `{"destination":"fd01::/64","nexthop":"six"}`, `{"interface":"b","destination":"fd01::/64"}`, "fd01::/64 nhid 3 via fd00::9 dev a"},
		{"v6blackhole", `{"destination":"fd01::/64","type":"blackhole"}`, `{"destination":"fd01::/64","type":"unreachable"}`, "blackhole fd01::/64 dev lo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.must("r", c.value)
			flat := strings.Join(strings.Fields(b.shown()), " ")
			for _, word := range strings.Fields(c.ip) {
				if !strings.Contains(flat, word) {
					t.Errorf("ip shows %s; want %s", flat, c.ip)
				}
			}
			b.same()
			b.must("r", c.value) // it is there: success
			b.restart()
			b.same()
			b.update("r", c.changed)
			b.same()
			if n := strings.Count(b.shown(), "10.1.0.0") + strings.Count(b.shown(), "fd01::") + strings.Count(b.shown(), "default"); n != 1 {
				t.Errorf("there are %d routes after the update:\n%s", n, b.shown())
			}
			b.delete("r")
			b.delete("r")
			if got := b.shown(); strings.TrimSpace(got) != "" {
				t.Errorf("left %s", got)
			}
			delete(b.in, "route/r")
			b.same()
			if _, ok := b.ledger.Get("route/r"); ok {
				t.Error("the ledger still names it")
			}
		})
	}
}

func TestForeignRoutesStay(t *testing.T) {
	b := newBench(t)
	ours := kernel.Protocol(label)
	for _, cmd := range []string{
		"route add 10.1.0.0/16 via 10.0.0.9 proto bird",
		fmt.Sprintf("route add 10.2.0.0/16 via 10.0.0.9 proto %d", ours), // the same number
		"-6 route add fd01::/64 via fd00::9 proto static",
	} {
		b.net.IP(t, cmd)
	}
	before := b.net.IP(t, "route show") + b.net.IP(t, "-6 route show")
	for dst, owner := range map[string]string{"10.1.0.0/16": "bird", "10.2.0.0/16": "somebody else", "fd01::/64": "static"} {
		err := b.add("x", fmt.Sprintf(`{"interface":"b","destination":%q}`, dst))
		var class *scheduler.OpError
		if !errors.As(err, &class) || class.Owner != owner {
			t.Errorf("%s: %v, want a conflict with %s", dst, err, owner)
		}
	}
	b.same()
	if after := b.net.IP(t, "route show") + b.net.IP(t, "-6 route show"); after != before {
		t.Errorf("foreign routes were touched:\n%s\n%s", before, after)
	}
	if left := b.owner().Entries("route/"); len(left) != 0 {
		t.Errorf("the ledger names %v", left)
	}

	// Beside a foreign route of the same identity, made later by appending.
	b.must("r", `{"interface":"a","destination":"10.7.0.0/16"}`)
	b.net.IP(t, fmt.Sprintf("route append 10.7.0.0/16 dev b proto %d", ours))
	b.delete("r")
	if got := b.net.IP(t, "route show 10.7.0.0/16"); !strings.Contains(got, "dev b") || strings.Contains(got, "dev a") {
		t.Errorf("left %s", got)
	}
}

func (b *bench) owner() *kernel.Owner { return kernel.NewOwner(label, "boot", b.ledger, nil) }

// Without the ledger there is no proof that a route is ours.
func TestDeleteNeedsTheLedger(t *testing.T) {
	b := newBench(t)
	b.must("r", `{"interface":"a","destination":"10.7.0.0/16"}`)
	b.ledger.Remove("route/r")
	b.delete("r")
	if got := b.shown(); !strings.Contains(got, "10.7.0.0/16") {
		t.Error("deleted by its protocol number alone")
	}
}

// Two interfaces of one namespace, one identity: the kernel and the ledger
// decide, where claims cannot see.
func TestTwoKeysOneRoute(t *testing.T) {
	b := newBench(t)
	b.must("first", `{"interface":"a","destination":"10.1.0.0/16"}`)
	err := b.add("second", `{"interface":"b","destination":"10.1.0.0/16"}`)
	var class *scheduler.OpError
	if !errors.As(err, &class) || class.On != "route/first" {
		t.Errorf("%v, want it to wait for route/first", err)
	}
	b.same()
	// Once the first is not wanted any more the second takes it over as it stands.
	b.unwanted["route/first"] = true
	b.must("second", `{"interface":"a","destination":"10.1.0.0/16"}`)
	b.delete("first")
	delete(b.in, "route/first")
	b.same()
	b.restart()
	b.same()
	b.delete("second")
	delete(b.in, "route/second")
	if got := b.net.IP(t, "route show 10.1.0.0/16"); got != "" {
		t.Errorf("left %s", got)
	}
	delete(b.unwanted, "route/first")
	b.must("first", `{"interface":"a","destination":"10.1.0.0/16"}`)
	// Another namespace is another route.
	b.must("third", `{"interface":"c","destination":"10.1.0.0/16"}`)
	b.must("fourth", `{"destination":"10.9.0.0/16","type":"blackhole","namespace":{"netns":"blue"}}`)
	b.restart()
	b.same()
}

func TestUpdateMovesBetweenNamespaces(t *testing.T) {
	b := newBench(t)
	b.must("r", `{"interface":"c","destination":"10.1.0.0/16"}`)
	b.update("r", `{"interface":"a","destination":"10.1.0.0/16"}`)
	b.same()
	if got := b.blue.IP(t, "route show 10.1.0.0/16"); got != "" {
		t.Errorf("left in the old namespace: %s", got)
	}
}

func TestOneWriteOfTheLedgerForABatch(t *testing.T) {
	b := newBench(t)
	before := b.ledger.Writes()
	var ops []*scheduler.Op[*models.Route, kernel.LinkRef]
	for i := range 100 {
		v := decode(t, fmt.Sprintf(`{"interface":"a","destination":"10.1.%d.0/24"}`, i))[0]
		ops = append(ops, &scheduler.Op[*models.Route, kernel.LinkRef]{Key: scheduler.Key(fmt.Sprintf("route/r%02d", i)), Value: v})
	}
	b.kind.CreateBatch(t.Context(), ops)
	for _, o := range ops {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		b.in[o.Key] = known{Key: o.Key, Value: o.Value, Meta: o.Meta, InPlace: true}
	}
	if n := b.ledger.Writes() - before; n != 1 {
		t.Errorf("%d writes of the ledger", n)
	}
	b.same()
}

// Of a batch, one that fails, and one that another of it is in the way of, keep no other from
// being made.
func TestABatchWithBadOnes(t *testing.T) {
	b := newBench(t)
	b.net.IP(t, "route add 10.1.3.0/24 via 10.0.0.9")
	var ops []*scheduler.Op[*models.Route, kernel.LinkRef]
	for i, v := range decode(t, `{"interface":"a","destination":"10.1.0.0/24"}
{"interface":"a","destination":"10.1.1.0/24","gateway":"192.0.2.1"}
{"interface":"c","destination":"10.1.0.0/24"}
{"interface":"a","destination":"10.1.3.0/24"}
{"interface":"a","destination":"10.1.0.0/24"}
{"interface":"a","destination":"10.1.5.0/24"}`) {
		ops = append(ops, &scheduler.Op[*models.Route, kernel.LinkRef]{Key: scheduler.Key(fmt.Sprintf("route/r%d", i)), Value: v})
	}
	b.kind.CreateBatch(t.Context(), ops)
	want := []string{"", "no way to gateway", "", "there is one already", "in use by route/r0", ""}
	for i, o := range ops {
		if want[i] == "" && o.Err != nil || want[i] != "" && (o.Err == nil || !strings.Contains(o.Err.Error(), want[i])) {
			t.Errorf("%s: %v", o.Key, o.Err)
		}
		if o.Err == nil {
			b.in[o.Key] = known{Key: o.Key, Value: o.Value, Meta: o.Meta, InPlace: true}
		}
	}
	b.same()
	b.delete("r0")
	delete(b.in, "route/r0")
	b.must("r4", `{"interface":"a","destination":"10.1.0.0/24"}`)
	b.same()
}

func TestCrashes(t *testing.T) {
	for _, point := range []string{"route/recorded", "route/made", "route/deleted"} {
		b := newBench(t)
		b.fail = point
		value := `{"interface":"a","destination":"10.1.0.0/16"}`
		err := b.add("r", value)
		if err == nil {
			kn := b.in["route/r"]
			err = b.kind.Delete(t.Context(), kn.Key, kn.Value, kn.Meta)
		}
		if !errors.Is(err, errCrash) {
			t.Fatalf("%s: %v", point, err)
		}
		b.fail = ""
		b.restart()
		b.must("r", value)
		b.same()
		b.delete("r")
		if got := b.shown(); strings.TrimSpace(got) != "" {
			t.Errorf("%s: left %s", point, got)
		}
	}
}

func TestWatch(t *testing.T) {
	b := newBench(t)
	b.same()
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
	reported := func(k scheduler.Key) {
		t.Helper()
		seen(string(k), func() bool { return slices.Contains(keys, k) })
		mu.Lock()
		defer mu.Unlock()
		keys = nil
	}
	seen("ready", func() bool { return ready })

	for i, value := range []string{
		`{"interface":"a","destination":"10.1.0.0/16"}`,
		`{"destination":"10.2.0.0/16","nexthops":[{"interface":"b","gateway":"10.0.1.9","weight":3},{"interface":"a","gateway":"10.0.0.9"}]}`,
		`{"interface":"a","destination":"fd01::/64","gateway":"fd00::9"}`,
		`{"destination":"fd02::/64","nexthops":[{"interface":"b","gateway":"fd00:1::9"},{"interface":"a","gateway":"fd00::9"}]}`,
		`{"destination":"fd03::/64","type":"blackhole"}`,
	} {
		b.must(fmt.Sprintf("r%d", i), value)
	}
	// Who did it is known.
	ip := b.net.Actor(t)
	ip.Do(t, "route del 10.1.0.0/16")
	reported("route/r0")
	if by := b.kind.ChangedBy("route/r0"); by != ip.Name() {
		t.Errorf("changed by %q", by)
	}
	b.must("r0", `{"interface":"a","destination":"10.1.0.0/16"}`)
	// A change by somebody else that comes last is reported last.
	fence := func() {
		t.Helper()
		b.must("fence", `{"interface":"a","destination":"10.99.0.0/16"}`)
		b.net.IP(t, "route del 10.99.0.0/16")
		seen("fence", func() bool { return slices.Contains(keys, "route/fence") })
		mu.Lock()
		defer mu.Unlock()
		if len(keys) != 1 {
			t.Errorf("our own doing is news: %v", keys)
		}
		keys = nil
	}
	fence()
	b.update("r0", `{"interface":"b","destination":"10.1.0.0/16"}`)
	b.update("r2", `{"interface":"a","destination":"fd01::/64","gateway":"fd00::8"}`)
	b.update("r3", `{"destination":"fd02::/64","nexthops":[{"interface":"a","gateway":"fd00::8"},{"interface":"a","gateway":"fd00::9"}]}`)
	fence()
	b.delete("r2")
	b.delete("r3")
	fence()

	b.net.IP(t, "route replace 10.1.0.0/16 dev a proto static")
	reported("route/r0")
	b.net.IP(t, "-6 route del fd03::/64")
	reported("route/r4")
	b.net.IP(t, "link set dev b down") // takes IPv4 routes with it in silence
	reported("route/r1")
	b.net.IP(t, "route add 10.5.0.0/16 dev a proto static")
	if err := b.add("late", `{"interface":"a","destination":"10.5.0.0/16"}`); err == nil {
		t.Error("took the place of a foreign route")
	}
	b.net.IP(t, "route del 10.5.0.0/16 proto static")
	reported("route/late") // its way is free now
	b.must("behind", `{"interface":"a","destination":"10.6.0.0/16"}`)
	b.net.IP(t, "route prepend 10.6.0.0/16 via 10.0.0.9 proto static")
	reported("route/behind")
	b.net.IP(t, "route del 10.6.0.0/16 via 10.0.0.9 proto static")
	reported("route/behind") // nothing is before it any more
}

// counting counts how often all routes are read.
type counting struct {
	hosttest.Kernel
	read int
}

func (k *counting) Routes(ns kernel.NS) ([]kernel.Route, error) {
	k.read++
	return k.Kernel.Routes(ns)
}

// All routes are read once for all that are taken over, or found to be taken, together.
func TestManyAreTakenOverTogether(t *testing.T) {
	b := newBench(t)
	k := &counting{Kernel: b.Kernel}
	b.Kernel = k
	b.restart()
	const many = 50
	for i := range many {
		b.net.IP(t, fmt.Sprintf("route add 10.9.%d.0/24 via 10.0.0.9", i))
	}
	values := func(adopt bool) (ops []*scheduler.Op[*models.Route, kernel.LinkRef], s scope) {
		s.All = true
		for i := range many {
			key := scheduler.Key(fmt.Sprintf("route/%d", i))
			v := &models.Route{Interface: "a", Destination: fmt.Sprintf("10.9.%d.0/24", i), Gateway: "10.0.0.9", Adopt: adopt}
			ops = append(ops, &scheduler.Op[*models.Route, kernel.LinkRef]{Key: key, Value: v})
			s.Known = append(s.Known, known{Key: key, Value: v})
		}
		return ops, s
	}
	reads := func(what string, most int, do func()) {
		t.Helper()
		k.read = 0
		if do(); k.read > most {
			t.Errorf("%s: all were read %d times", what, k.read)
		}
	}
	ops, _ := values(false)
	reads("taken", 1, func() { b.kind.CreateBatch(t.Context(), ops) })
	for _, o := range ops {
		if o.Err == nil || !strings.Contains(o.Err.Error(), "there is one already") {
			t.Errorf("%s: %v", o.Key, o.Err)
		}
	}
	ops, s := values(true)
	reads("looked at", 2, func() {
		found := 0
		s.ReadOnly = true
		for _, err := range b.kind.Retrieve(t.Context(), s) {
			if found++; err != nil {
				t.Error(err)
			}
		}
		if found != many {
			t.Errorf("found %d", found)
		}
	})
	before := b.Writes()
	reads("taken over", 1, func() { b.kind.CreateBatch(t.Context(), ops) })
	for _, o := range ops {
		if o.Err != nil {
			t.Errorf("%s: %v", o.Key, o.Err)
		}
	}
	if n := b.Writes() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
}
