package sysctl_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/descriptors/sysctl"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is the kind on a live kernel, with stand-ins for the scheduler and the
// interface kind: the link a in the agent's namespace, b in blue.
type bench struct {
	*hosttest.Host
	t         *testing.T
	net, blue *netlinktest.Namespace
	blueNS    kernel.NS
	ledger    *kernel.MemLedger
	links     interfaces
	poll      chan time.Time
	fail      string
	kind      scheduler.Descriptor[*models.Sysctl, kernel.LinkRef]
	at        map[scheduler.Key]kernel.LinkRef
}

type (
	scope      = scheduler.Scope[*models.Sysctl, kernel.LinkRef]
	interfaces map[scheduler.Key]kernel.LinkRef
)

func (l interfaces) Get(k scheduler.Key) (*models.Interface, kernel.LinkRef, bool) {
	ref, ok := l[k]
	return &models.Interface{}, ref, ok
}

var errCrash = errors.New("crash")

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	b := &bench{Host: h, t: t, net: h.Net, blue: &netlinktest.Namespace{}, ledger: &kernel.MemLedger{},
		links: interfaces{}, poll: make(chan time.Time), at: map[scheduler.Key]kernel.LinkRef{}}
	b.blueNS, b.blue.Path = h.Named(t, "blue")
	b.link(b.Own(), "", "a")
	b.link(b.blueNS, b.blue.Path, "b")
	b.restart()
	return b
}

func (b *bench) restart() {
	owner := kernel.NewOwner("host7", "boot", b.ledger, func(name string) error {
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.kind = sysctl.New(sysctl.Deps{Kernel: b.Kernel, Owner: owner, Places: b, Interfaces: b.links, Poll: b.poll})
}

func (b *bench) link(ns kernel.NS, path, name string) {
	b.t.Helper()
	l, err := b.AddLink(ns, kernel.LinkSpec{Name: name, Bridge: &kernel.BridgeSpec{}})
	if err != nil {
		b.t.Fatal(err)
	}
	key := models.InterfaceKey(name)
	b.links[scheduler.Key(key)] = l.Ref()
	if err := b.ledger.Add(kernel.Entry{ID: key, NS: ns, NSPath: path, Boot: "boot"}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) Resolve(_ context.Context, in *models.Namespace) (selector.Place, error) {
	if in.GetIn() == nil {
		return selector.Place{NS: b.Own()}, nil
	}
	return selector.Place{NS: b.blueNS, Path: b.blue.Path}, nil
}

func (b *bench) create(name, value string) error {
	b.t.Helper()
	k, v := scheduler.Key(models.SysctlKey(name)), decode(b.t, value)[0]
	if err := b.kind.Validate(k, v); err != nil {
		b.t.Fatal(err)
	}
	at, err := b.kind.Create(context.Background(), k, v)
	b.at[k] = at
	return err
}

func (b *bench) must(name, value string) {
	b.t.Helper()
	if err := b.create(name, value); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) update(name, value string) {
	b.t.Helper()
	k := scheduler.Key(models.SysctlKey(name))
	if _, err := b.kind.Update(context.Background(), k, nil, decode(b.t, value)[0], b.at[k]); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) delete(name string) error {
	k := scheduler.Key(models.SysctlKey(name))
	return b.kind.Delete(context.Background(), k, &models.Sysctl{}, b.at[k])
}

// look lists what is found.
func (b *bench) look() string {
	b.t.Helper()
	var list []string
	for f, err := range b.kind.Retrieve(context.Background(), scope{All: true}) {
		if err != nil {
			b.t.Errorf("%s: %v", f.Key, err)
		}
		list = append(list, string(f.Key)+"="+f.Value.GetValue())
	}
	return strings.Join(list, " ")
}

// is checks a setting as others see it.
func (b *bench) is(n *netlinktest.Namespace, place, want string) {
	b.t.Helper()
	got := strings.Join(strings.Fields(n.Run(b.t, "cat", "/proc/sys/net/"+place)), " ")
	if got != want {
		b.t.Errorf("%s is %q, want %q", place, got, want)
	}
}

// TestConform holds the kind to the contract of descriptors, on each kernel.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	sample := func(name string, values ...string) schedulertest.Sample[*models.Sysctl] {
		return schedulertest.Sample[*models.Sysctl]{Key: scheduler.Key(models.SysctlKey(name)), Values: decode(t, strings.Join(values, "\n"))}
	}
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.Sysctl, kernel.LinkRef]{
		Samples: []schedulertest.Sample[*models.Sysctl]{
			sample("ttl", `{"key":"net.ipv4.ip_default_ttl","value":"63"}`, `{"key":"net/ipv4/ip_default_ttl","value":"62"}`,
				`{"key":"net.ipv4.ip_default_ttl","value":"62","namespace":{"netns":"blue"}}`, `{"key":"net.ipv4.tcp_retries2","value":"7"}`),
			sample("link", `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"2","interface":"a"}`, `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"1","interface":"a"}`,
				`{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"2","interface":"b"}`),
			sample("three", `{"key":"net.ipv4.tcp_rmem","value":"4096  16384 65536"}`, `{"key":"net.ipv4.tcp_rmem","value":"8192\t16384\t65536"}`),
		},
		Refused: map[scheduler.Key]*models.Sysctl{"sysctl/bad": {Key: "kernel.hostname", Value: "x"}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Sysctl, kernel.LinkRef] {
			b.restart()
			return b.kind
		},
		Clone:     proto.CloneOf[*models.Sysctl],
		Identical: func(x, y *models.Sysctl) bool { return proto.Equal(x, y) },
	})
}

// What was there before comes back, whatever has been in between.
func TestPriorComesBack(t *testing.T) {
	b := newBench(t)
	b.blue.Sysctl(t, "ipv4/ip_default_ttl", "50")
	b.must("ttl", `{"key":"net.ipv4.ip_default_ttl","value":"60","namespace":{"netns":"blue"}}`)
	b.is(b.blue, "ipv4/ip_default_ttl", "60")
	b.is(b.net, "ipv4/ip_default_ttl", "64")
	b.update("ttl", `{"key":"net.ipv4.ip_default_ttl","value":"61","namespace":{"netns":"blue"}}`)
	b.is(b.blue, "ipv4/ip_default_ttl", "61")
	b.restart()
	b.blue.Sysctl(t, "ipv4/ip_default_ttl", "7")
	if got := b.look(); got != "sysctl/ttl=7" {
		t.Errorf("found %s", got)
	}
	for range 2 {
		if err := b.delete("ttl"); err != nil {
			t.Fatal(err)
		}
	}
	b.is(b.blue, "ipv4/ip_default_ttl", "50")
	if got := b.look(); got != "" || len(b.ledger.Entries("")) != 2 {
		t.Errorf("found %s, the ledger has\n%s", got, b.ledger)
	}
}

// A value that was there already is ours as well, and stays when it is withdrawn.
func TestSetAlready(t *testing.T) {
	b := newBench(t)
	b.net.Sysctl(t, "ipv4/ip_default_ttl", "64")
	writes := b.Writes()
	b.must("rmem", `{"key":"net.ipv4.ip_default_ttl","value":" 64"}`)
	if err := b.delete("rmem"); err != nil || b.Writes() != writes {
		t.Errorf("%v, written %d times", err, b.Writes()-writes)
	}
	b.is(b.net, "ipv4/ip_default_ttl", "64")
}

// A link has its settings under its name; when it is renamed they go with it.
func TestRenamedLink(t *testing.T) {
	b := newBench(t)
	b.blue.Sysctl(t, "ipv4/conf/b/rp_filter", "0")
	b.must("loose", `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"2","interface":"b"}`)
	b.is(b.blue, "ipv4/conf/b/rp_filter", "2")
	b.blue.IP(t, "link set dev b name b.7")
	if got := b.look(); got != "sysctl/loose=2" {
		t.Errorf("found %s", got)
	}
	b.update("loose", `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"1","interface":"b"}`)
	b.is(b.blue, "ipv4/conf/b.7/rp_filter", "1")
	if err := b.delete("loose"); err != nil {
		t.Fatal(err)
	}
	b.is(b.blue, "ipv4/conf/b.7/rp_filter", "0")
}

// What was set in something that is gone is gone, and deleting it is success.
func TestGroundGone(t *testing.T) {
	b := newBench(t)
	b.must("loose", `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"2","interface":"b"}`)
	b.blue.IP(t, "link del dev b")
	if err := b.delete("loose"); err != nil {
		t.Error(err)
	}
	b.link(b.blueNS, b.blue.Path, "b")
	b.must("loose", `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"2","interface":"b"}`)
	b.blue.IP(t, "link del dev b")
	if got := b.look(); got != "" || strings.Contains(b.ledger.String(), "sysctl/") {
		t.Errorf("found %s, the ledger has\n%s", got, b.ledger)
	}
}

// What the kernel does not take leaves all as it was.
func TestRefused(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct{ value, says string }{
		"bad":   {`{"key":"net.ipv4.ip_default_ttl","value":"300"}`, "invalid argument"},
		"other": {`{"key":"net.ipv4.ip_default_ttl","value":"0x3f"}`, `set to "0x3f" it is "63"; write it so`},
		"none":  {`{"key":"net.ipv4.no_such","value":"1"}`, "net.ipv4.no_such is no setting of this namespace"},
	} {
		if err := b.create(name, c.value); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.is(b.net, "ipv4/ip_default_ttl", "64")
	if got := b.look(); got != "" {
		t.Errorf("found %s", got)
	}
}

// One setting has one value, however it is written: through two selectors of one namespace,
// by its place and as that of a link, or under either of the two names that one has. Who was
// first keeps it, and what was there before comes back.
func TestOneHolder(t *testing.T) {
	const (
		blue    = `{"key":"net.ipv4.ip_default_ttl","value":"60","namespace":{"netns":"blue"}}`
		web     = `{"key":"net.ipv4.ip_default_ttl","value":"61","namespace":{"microservice":"web"}}`
		place   = `{"key":"net.ipv4.conf.b.rp_filter","value":"1","namespace":{"netns":"blue"}}`
		link    = `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"2","interface":"b"}`
		forward = `{"key":"net.ipv4.ip_forward","value":"1","namespace":{"netns":"blue"}}`
		all     = `{"key":"net/ipv4/conf/all/forwarding","value":"0","namespace":{"netns":"blue"}}`
	)
	for _, c := range []struct{ one, two, at, before, is string }{
		{blue, web, "ipv4/ip_default_ttl", "64", "60"},
		{place, link, "ipv4/conf/b/rp_filter", "0", "1"},
		{link, place, "ipv4/conf/b/rp_filter", "0", "2"},
		{forward, all, "ipv4/ip_forward", "0", "1"},
	} {
		b := newBench(t)
		b.blue.Sysctl(t, c.at, c.before)
		b.must("one", c.one)
		err := b.create("two", c.two)
		var class *scheduler.OpError
		if !errors.As(err, &class) || class.On != "sysctl/one" {
			t.Errorf("%s: %v, want it to wait for sysctl/one", c.two, err)
		}
		b.is(b.blue, c.at, c.is)
		b.update("one", c.one)
		if err := b.delete("one"); err != nil {
			t.Fatal(err)
		}
		b.is(b.blue, c.at, c.before)
		b.must("two", c.two)
		if err := b.delete("two"); err != nil {
			t.Fatal(err)
		}
		b.is(b.blue, c.at, c.before)
	}
}

// Other links, other namespaces and other settings are no reason to wait.
func TestManyHolders(t *testing.T) {
	b := newBench(t)
	b.must("a", `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"2","interface":"a"}`)
	b.must("b", `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"2","interface":"b"}`)
	b.must("all", `{"key":"net.ipv4.conf.all.rp_filter","value":"0","namespace":{"netns":"blue"}}`)
	b.must("own", `{"key":"net.ipv4.conf.a.log_martians","value":"1"}`)
	b.must("lo", `{"key":"net.ipv4.conf.lo.rp_filter","value":"1","namespace":{"netns":"blue"}}`)
}

// What others change is noticed at the next reading; what we change is not news.
func TestWatch(t *testing.T) {
	b := newBench(t)
	b.must("ttl", `{"key":"net.ipv4.ip_default_ttl","value":"60"}`)
	b.must("other", `{"key":"net.ipv4.tcp_retries2","value":"9"}`)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	var mu sync.Mutex
	told := map[scheduler.Key]bool{}
	go func() {
		ended <- b.kind.Watch(ctx, func(keys ...scheduler.Key) {
			mu.Lock()
			defer mu.Unlock()
			for _, k := range keys {
				told[k] = true
			}
		})
	}()
	round := func(want ...scheduler.Key) {
		t.Helper()
		b.poll <- time.Time{} // taken when the readings before are done
		mu.Lock()
		clear(told)
		mu.Unlock()
		b.poll <- time.Time{}
		b.poll <- time.Time{} // taken when that reading is done
		mu.Lock()
		defer mu.Unlock()
		if got := slices.Sorted(maps.Keys(told)); !slices.Equal(got, want) {
			t.Errorf("told of %v, want %v", got, want)
		}
	}
	round()
	b.update("ttl", `{"key":"net.ipv4.ip_default_ttl","value":"61"}`)
	round()
	b.net.Sysctl(t, "ipv4/ip_default_ttl", "9")
	for range b.kind.Retrieve(ctx, scope{All: true, ReadOnly: true}) { // what somebody was shown is news still
		continue
	}
	round("sysctl/ttl")
	if got := b.look(); got != "sysctl/other=9 sysctl/ttl=9" {
		t.Errorf("found %s", got)
	}
	b.update("ttl", `{"key":"net.ipv4.ip_default_ttl","value":"61"}`)
	round()
	if err := b.delete("ttl"); err != nil {
		t.Fatal(err)
	}
	round()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Wherever it crashes, what was there before us comes back in the end.
func TestCrashes(t *testing.T) {
	for _, point := range []string{"sysctl/recorded", "sysctl/made", "sysctl/deleted"} {
		for _, again := range []bool{true, false} {
			b := newBench(t)
			b.fail = point
			err := b.create("ttl", `{"key":"net.ipv4.ip_default_ttl","value":"60"}`)
			if err == nil {
				err = b.delete("ttl")
			}
			if !errors.Is(err, errCrash) {
				t.Fatalf("%s: %v", point, err)
			}
			b.fail = ""
			b.restart()
			if again {
				b.must("ttl", `{"key":"net.ipv4.ip_default_ttl","value":"61"}`)
				b.is(b.net, "ipv4/ip_default_ttl", "61")
			}
			if err := b.delete("ttl"); err != nil {
				t.Fatal(err)
			}
			b.is(b.net, "ipv4/ip_default_ttl", "64")
			if got := b.look(); got != "" {
				t.Errorf("%s: left %s", point, got)
			}
		}
	}
}
