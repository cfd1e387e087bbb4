package nexthop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	"github.com/plumb-net/plumb/descriptors/nexthop"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// bench is the kind on a live kernel, with stand-ins for the scheduler and the interface
// kind: links a and b (10.0.0.1/24, 10.0.1.1/24) in the agent's namespace, c (10.0.2.1/24)
// in blue. What was created is in place for groups.
type bench struct {
	*hosttest.Host
	t         *testing.T
	net, blue *netlinktest.Namespace
	blueNS    kernel.NS
	ledger    *kernel.MemLedger
	names     *kernel.Names
	links     kindtest.Links
	inPlace   map[scheduler.Key]*models.Nexthop // in the agent's namespace
	fail      string
	kind      scheduler.Descriptor[*models.Nexthop, kernel.LinkRef]
	unwanted  map[scheduler.Key]bool
}

type scope = scheduler.Scope[*models.Nexthop, kernel.LinkRef]

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	b := &bench{Host: h, t: t, net: h.Net, blue: &netlinktest.Namespace{}, ledger: &kernel.MemLedger{}, names: &kernel.Names{},
		links: kindtest.Links{}, inPlace: map[scheduler.Key]*models.Nexthop{}, unwanted: map[scheduler.Key]bool{}}
	b.blueNS, b.blue.Path = h.Named(t, "blue")
	b.restart()
	b.link(b.Own(), "", "a", "10.0.0.1/24")
	b.link(b.Own(), "", "b", "10.0.1.1/24")
	b.link(b.blueNS, b.blue.Path, "c", "10.0.2.1/24")
	return b
}

func (b *bench) link(ns kernel.NS, path, name, address string) {
	b.t.Helper()
	b.Do(b.t, ns, "ip link set lo up")
	l, err := b.AddLink(ns, kernel.LinkSpec{Name: name, Bridge: &kernel.BridgeSpec{}, Up: true})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Do(b.t, ns, "ip addr add "+address+" dev "+name)
	key := models.InterfaceKey(name)
	b.links[scheduler.Key(key)] = l.Ref()
	b.names.Put(l.Ref(), name)
	if err := b.ledger.Add(kernel.Entry{ID: key, NS: ns, NSPath: path, Boot: "boot"}); err != nil {
		b.t.Fatal(err)
	}
}

var errCrash = errors.New("crash")

func (b *bench) restart() {
	owner := kernel.NewOwner("host7", "boot", b.ledger, func(name string) error {
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.kind = nexthop.New(nexthop.Deps{Kernel: b.Kernel, Owner: owner, Names: b.names, Places: b, Interfaces: b.links,
		Nexthops: func(k scheduler.Key) (*models.Nexthop, kernel.LinkRef, bool) {
			v, there := b.inPlace[k]
			return v, kernel.LinkRef{NS: b.Own()}, there
		},
		Wanted: func(k scheduler.Key) bool { return !b.unwanted[k] }})
}

func (b *bench) Resolve(_ context.Context, in *models.Namespace) (selector.Place, error) {
	if in.GetIn() == nil {
		return selector.Place{NS: b.Own()}, nil
	}
	return selector.Place{NS: b.blueNS, Path: b.blue.Path}, nil
}

func (b *bench) create(k scheduler.Key, v string) error {
	value := decode(b.t, v)[0]
	_, err := b.kind.Create(context.Background(), k, value)
	if err == nil {
		b.inPlace[k] = value
	}
	return err
}

func (b *bench) must(k scheduler.Key, v string) {
	b.t.Helper()
	if err := b.create(k, v); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) delete(k scheduler.Key, v string) error {
	delete(b.inPlace, k)
	return b.kind.Delete(context.Background(), k, decode(b.t, v)[0], kernel.LinkRef{NS: b.Own()})
}

// reads is what the kind finds under a key, as JSON; "" if nothing.
func (b *bench) reads(k scheduler.Key) (text string) {
	b.t.Helper()
	for f, err := range b.kind.Retrieve(b.t.Context(), scope{Keys: []scheduler.Key{k}}) {
		if err != nil {
			b.t.Fatal(err)
		}
		text = string(models.Encode(f.Value))
	}
	return text
}

// shows are the nexthops of the agent's namespace by ip.
func (b *bench) shows(want string) {
	b.t.Helper()
	var got []string
	for line := range strings.Lines(b.net.IP(b.t, "nexthop show")) {
		got = append(got, strings.TrimSpace(line))
	}
	if s := strings.Join(got, "\n"); s != want {
		b.t.Errorf("ip shows %q, want %q", s, want)
	}
}

const (
	router = `{"id":7,"interface":"a","gateway":"10.0.0.9"}`
	shown  = "id 7 via 10.0.0.9 dev a scope link proto 240"
)

// TestConform holds the kind to the contract of descriptors, on each kernel. Groups, which
// are made of others of the kind, are in TestGroup.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	sample := func(name string, values ...string) schedulertest.Sample[*models.Nexthop] {
		return schedulertest.Sample[*models.Nexthop]{Key: scheduler.Key(models.NexthopKey(name)), Values: decode(t, strings.Join(values, "\n"))}
	}
	ids := map[scheduler.Key]string{"nexthop/four": "7", "nexthop/six": "8", "nexthop/hole": "9"}
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.Nexthop, kernel.LinkRef]{
		Samples: []schedulertest.Sample[*models.Nexthop]{
			sample("four", router, `{"id":7,"interface":"b","gateway":"10.0.1.9"}`, `{"id":7,"interface":"b","family":"ipv4"}`,
				`{"id":7,"interface":"a","family":"ipv4","encap":{"id":7,"dst":"2001:db8::1","ttl":9}}`,
				`{"id":7,"interface":"a","gateway":"10.0.0.9","encap":{"dst":"192.0.2.1","src":"192.0.2.2","tos":16}}`,
				`{"id":7,"interface":"c","gateway":"10.0.2.9"}`, `{"id":77,"blackhole":true,"family":"ipv4"}`),
			sample("six", `{"id":8,"interface":"a","gateway":"fd00::9","onlink":true}`, `{"id":8,"interface":"a","gateway":"fe80::9"}`,
				`{"id":8,"interface":"a","family":"ipv4"}`),
			sample("hole", `{"id":9,"blackhole":true,"family":"ipv6"}`, `{"id":9,"interface":"b","family":"ipv6"}`,
				`{"id":9,"blackhole":true,"family":"ipv6","namespace":{"netns":"blue"}}`),
		},
		Refused: map[scheduler.Key]*models.Nexthop{"nexthop/bad": {Id: 7}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Nexthop, kernel.LinkRef] {
			b.restart()
			return b.kind
		},
		Foreign: func(t testing.TB, k scheduler.Key, _ *models.Nexthop) func() bool {
			b.Do(t, b.Own(), "ip nexthop add id "+ids[k]+" dev b proto 77")
			t.Cleanup(func() { b.Do(t, b.Own(), "ip nexthop del id "+ids[k]) })
			return func() bool { return b.Shows(t, "ip nexthop add id "+ids[k]+" proto 77") }
		},
		Remove:    func(t testing.TB, k scheduler.Key) { b.Do(t, b.Own(), "ip nexthop del id "+ids[k]) },
		Clone:     proto.CloneOf[*models.Nexthop],
		Identical: func(x, y *models.Nexthop) bool { return proto.Equal(x, y) },
	})
}

// TestCrashes: wherever it ends, the next run knows what is ours and finishes.
func TestCrashes(t *testing.T) {
	for _, at := range []string{"nexthop/recorded", "nexthop/made", "nexthop/deleted"} {
		t.Run(at, func(t *testing.T) {
			b := newBench(t)
			b.fail = at
			err := b.create("nexthop/a", router)
			if err == nil {
				err = b.delete("nexthop/a", router)
			}
			if !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			b.fail = ""
			b.restart()
			b.must("nexthop/a", router)
			b.shows(shown)
			if err := b.delete("nexthop/a", router); err != nil {
				t.Fatal(err)
			}
			b.shows("")
			if left := b.ledger.Entries("nexthop/"); len(left) != 0 {
				t.Error(left)
			}
		})
	}
}

// TestIncumbentStays: one of the number that somebody else has made is no affair of ours,
// before and after.
func TestIncumbentStays(t *testing.T) {
	b := newBench(t)
	const his = "id 7 dev b scope host"
	b.net.IP(t, "nexthop add id 7 dev b")
	if err := b.create("nexthop/a", router); err == nil || !strings.Contains(err.Error(), "there is a nexthop 7 already") {
		t.Errorf("%v", err)
	}
	if err := b.delete("nexthop/a", router); err != nil {
		t.Error(err)
	}
	b.shows(his)
	b.net.IP(t, "nexthop del id 7")
	b.must("nexthop/a", router)
	b.net.IP(t, "nexthop replace id 7 dev b")
	if found := b.reads("nexthop/a"); found != "" {
		t.Errorf("his is shown as ours: %s", found)
	}
	if err := b.delete("nexthop/a", router); err != nil {
		t.Error(err)
	}
	b.shows(his)
}

// TestTwoKeys: two keys for one number, which values do not tell, are told apart by who has
// it; from a key that is not wanted any more it is taken over.
func TestTwoKeys(t *testing.T) {
	b := newBench(t)
	b.must("nexthop/a", router)
	other := `{"id":7,"interface":"b","gateway":"10.0.1.9"}`
	if err := b.create("nexthop/b", other); err == nil || !strings.Contains(err.Error(), "in use by nexthop/a") {
		t.Errorf("%v", err)
	}
	b.unwanted["nexthop/a"] = true
	b.must("nexthop/b", other)
	if err := b.delete("nexthop/a", router); err != nil {
		t.Error(err)
	}
	b.shows("id 7 via 10.0.1.9 dev b scope link proto 240")
	if err := b.delete("nexthop/b", other); err != nil {
		t.Error(err)
	}
	b.shows("")
}

// TestGroup: it is made of the members that are there, and made whole when the others come.
func TestGroup(t *testing.T) {
	b := newBench(t)
	const group = `{"id":10,"group":[{"nexthop":"a","weight":2},{"nexthop":"b"}]}`
	waits := func(on scheduler.Key, with string) {
		t.Helper()
		err := b.create("nexthop/g", group)
		var op *scheduler.OpError
		if !errors.As(err, &op) || op.On != on || !strings.Contains(err.Error(), with) {
			t.Errorf("%v, want one that waits for %s", err, on)
		}
	}
	waits("nexthop/b", "no member of the group is there")
	b.must("nexthop/a", router)
	waits("nexthop/b", "works without nexthop/b")
	b.shows(shown + "\nid 10 group 7,2 proto 240")
	const second = `{"id":8,"interface":"b","gateway":"10.0.1.9"}`
	b.must("nexthop/b", second)
	b.must("nexthop/g", group)
	const whole = shown + "\nid 8 via 10.0.1.9 dev b scope link proto 240\nid 10 group 7,2/8 proto 240"
	b.shows(whole)
	b.restart()
	if found := b.reads("nexthop/g"); found != `{"id":10,"group":[{"nexthop":"a","weight":2},{"nexthop":"b","weight":1}]}` {
		t.Error(found)
	}
	b.net.IP(t, "nexthop add id 9 dev b")
	b.net.IP(t, "nexthop replace id 10 group 7/9 proto 240")
	if found := b.reads("nexthop/g"); !strings.Contains(found, `{"nexthop":"?9","weight":1}`) {
		t.Error(found)
	}
	b.must("nexthop/g", group) // changed in place
	b.net.IP(t, "nexthop del id 9")
	b.shows(whole)
	if err := b.delete("nexthop/b", second); err != nil {
		t.Fatal(err)
	}
	if found := b.reads("nexthop/g"); found != `{"id":10,"group":[{"nexthop":"a","weight":2}]}` {
		t.Error(found)
	}
	b.inPlace["nexthop/b"] = decode(t, second)[0] // the scheduler has not heard of it
	waits("nexthop/b", "works without nexthop/b")
	b.must("nexthop/b", `{"id":8,"group":[{"nexthop":"a"}]}`)
	waits("nexthop/b", "is a group")
}

// TestDown: what the kernel takes only over a link that is up says so.
func TestDown(t *testing.T) {
	b := newBench(t)
	b.net.IP(t, "link set lo down")
	err := b.create("nexthop/hole", `{"id":9,"blackhole":true,"family":"ipv4"}`)
	var op *scheduler.OpError
	if !errors.As(err, &op) || op.On != "hostlink/lo" {
		t.Errorf("blackhole: %v", err)
	}
	b.net.IP(t, "link set dev a down")
	if err := b.create("nexthop/a", router); !errors.Is(err, kernel.ErrDown) {
		t.Errorf("router: %v", err)
	}
	if left := b.ledger.Entries("nexthop/"); len(left) != 0 {
		t.Error(left)
	}
}

// TestWatch: what somebody does to ours is news, and so is a link of ours that goes down,
// of which the kernel tells no more; what we do is not.
func TestWatch(t *testing.T) {
	b := newBench(t)
	news := kindtest.Watch(t, b.kind)
	hears := func(want ...scheduler.Key) {
		t.Helper()
		if heard := news.Of("the news", func(heard []scheduler.Key) bool { return len(heard) >= len(want) }); !slices.Equal(heard, want) {
			t.Errorf("news of %v, want %v", heard, want)
		}
	}
	const second, group = `{"id":8,"interface":"b","family":"ipv4"}`, `{"id":10,"group":[{"nexthop":"a"},{"nexthop":"b"}]}`
	b.must("nexthop/a", router)
	b.must("nexthop/b", second)
	b.must("nexthop/g", group)
	b.net.IP(t, "nexthop add id 5 dev b") // nobody's business
	b.net.IP(t, "nexthop replace id 7 dev b proto 240")
	hears("nexthop/a")
	b.must("nexthop/a", router)
	b.net.IP(t, "nexthop del id 8")
	hears("nexthop/b", "nexthop/g")
	b.must("nexthop/b", second)
	b.must("nexthop/g", group)
	b.net.IP(t, "link set dev b down")
	hears("nexthop/b", "nexthop/g")
}
