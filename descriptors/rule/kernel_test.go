package rule_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	"github.com/plumb-net/plumb/descriptors/rule"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// bench is the kind on a live kernel, with a stand-in for the interface kind: link a in the
// agent's namespace, and c in blue.
type bench struct {
	*hosttest.Host
	t         *testing.T
	net, blue *netlinktest.Namespace
	blueNS    kernel.NS
	ledger    *kernel.MemLedger
	links     kindtest.Links
	fail      string
	kind      scheduler.Descriptor[*models.Rule, kernel.LinkRef]
	unwanted  map[scheduler.Key]bool
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	b := &bench{Host: h, t: t, net: h.Net, blue: &netlinktest.Namespace{}, ledger: &kernel.MemLedger{}, links: kindtest.Links{}, unwanted: map[scheduler.Key]bool{}}
	b.blueNS, b.blue.Path = h.Named(t, "blue")
	for name, ns := range map[string]kernel.NS{"a": b.Own(), "c": b.blueNS} {
		l, err := b.AddLink(ns, kernel.LinkSpec{Name: name + "0", Bridge: &kernel.BridgeSpec{}, Up: true})
		if err != nil {
			t.Fatal(err)
		}
		key := models.InterfaceKey(name)
		b.links[scheduler.Key(key)] = l.Ref()
		path := map[kernel.NS]string{b.blueNS: b.blue.Path}[ns]
		if err := b.ledger.Add(kernel.Entry{ID: key, NS: ns, NSPath: path, Boot: "boot"}); err != nil {
			t.Fatal(err)
		}
	}
	b.restart()
	return b
}

var errCrash = errors.New("crash")

func (b *bench) restart() {
	owner := kernel.NewOwner("host7", "boot", b.ledger, func(name string) error {
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.kind = rule.New(rule.Deps{Kernel: b.Kernel, Owner: owner, Places: b, Interfaces: b.links,
		Wanted: func(k scheduler.Key) bool { return !b.unwanted[k] }})
}

func (b *bench) Resolve(_ context.Context, in *models.Namespace) (selector.Place, error) {
	if in.GetIn() == nil {
		return selector.Place{NS: b.Own()}, nil
	}
	return selector.Place{NS: b.blueNS, Path: b.blue.Path}, nil
}

func (b *bench) create(k scheduler.Key, v string) error {
	_, err := b.kind.Create(context.Background(), k, decode(b.t, v)[0])
	return err
}

func (b *bench) delete(k scheduler.Key, v string) error {
	return b.kind.Delete(context.Background(), k, decode(b.t, v)[0], kernel.LinkRef{NS: b.Own()})
}

// shows are the rules that are not the kernel's own.
func (b *bench) shows(want string) {
	b.t.Helper()
	var got []string
	for line := range strings.Lines(b.net.IP(b.t, "rule show")) {
		if line = strings.TrimSpace(line); !strings.HasSuffix(line, "proto kernel") && !strings.HasSuffix(line, "lookup local") && !strings.HasSuffix(line, "lookup main") && !strings.HasSuffix(line, "lookup default") {
			got = append(got, line)
		}
	}
	if s := strings.Join(got, "\n"); s != want {
		b.t.Errorf("ip shows %q, want %q", s, want)
	}
}

// TestConform holds the kind to the contract of descriptors, on each kernel.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	sample := func(name string, values ...string) schedulertest.Sample[*models.Rule] {
		return schedulertest.Sample[*models.Rule]{Key: scheduler.Key(models.RuleKey(name)), Values: decode(t, strings.Join(values, "\n"))}
	}
	first := map[scheduler.Key]string{
		"rule/four": "rule %s pref 1000 from 10.1.0.0/16 table 100", "rule/six": "-6 rule %s pref 1000 from fd01::/64 iif a0 type prohibit",
		"rule/mark": "rule %s pref 7 fwmark 5/0xff table 1",
	}
	ip := func(t testing.TB, k scheduler.Key, act string) {
		b.Do(t, b.Own(), "ip "+strings.Replace(first[k], "%s", act, 1))
	}
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.Rule, kernel.LinkRef]{
		Samples: []schedulertest.Sample[*models.Rule]{
			sample("four", `{"priority":1000,"from":"10.1.0.0/16","table":100}`, `{"priority":1000,"from":"10.1.0.0/16","table":101}`,
				`{"priority":1001,"to":"10.1.0.0/16","action":"blackhole","namespace":{"netns":"blue"}}`),
			sample("six", `{"priority":1000,"from":"fd01::/64","iif":"a","action":"prohibit"}`,
				`{"priority":1000,"from":"fd01::/64","oif":"c","action":"prohibit"}`),
			sample("mark", `{"priority":7,"family":"ipv4","fwmark":5,"fwmask":255,"table":1}`, `{"priority":7,"family":"ipv6","fwmark":5,"table":1}`),
		},
		Refused: map[scheduler.Key]*models.Rule{"rule/bad": {Priority: 7}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Rule, kernel.LinkRef] {
			b.restart()
			return b.kind
		},
		Remove:    func(t testing.TB, k scheduler.Key) { ip(t, k, "del") },
		Clone:     proto.CloneOf[*models.Rule],
		Identical: func(x, y *models.Rule) bool { return proto.Equal(x, y) },
	})
}

const (
	customer = `{"priority":1000,"from":"10.1.0.0/16","table":100}`
	shown    = "1000:\tfrom 10.1.0.0/16 lookup 100"
)

// TestCrashes: wherever it ends, the next run knows what is ours and finishes.
func TestCrashes(t *testing.T) {
	for _, at := range []string{"rule/recorded", "rule/made", "rule/deleted"} {
		t.Run(at, func(t *testing.T) {
			b := newBench(t)
			b.fail = at
			err := b.create("rule/a", customer)
			if err == nil {
				err = b.delete("rule/a", customer)
			}
			if !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			b.fail = ""
			b.restart()
			if err := b.create("rule/a", customer); err != nil {
				t.Fatal(err)
			}
			b.shows(shown + " proto 240")
			if err := b.delete("rule/a", customer); err != nil {
				t.Fatal(err)
			}
			b.shows("")
			if left := b.ledger.Entries(""); len(left) != 2 { // of the kindtest.Links
				t.Error(left)
			}
		})
	}
}

// TestIncumbentStays: one that somebody else has made and that says the same stays beside
// ours, and when ours goes; also if ours has been removed.
func TestIncumbentStays(t *testing.T) {
	b := newBench(t)
	b.net.IP(t, "rule add pref 1000 from 10.1.0.0/16 table 100")
	if err := b.create("rule/a", customer); err != nil {
		t.Fatal(err)
	}
	b.shows(shown + "\n" + shown + " proto 240")
	if err := b.delete("rule/a", customer); err != nil {
		t.Error(err)
	}
	b.shows(shown)
	if err := b.create("rule/a", customer); err != nil {
		t.Fatal(err)
	}
	b.net.IP(t, "rule del pref 1000 protocol 240")
	for range b.kind.Retrieve(t.Context(), scheduler.Scope[*models.Rule, kernel.LinkRef]{All: true}) {
		t.Error("his is shown as ours")
	}
	if err := b.delete("rule/a", customer); err != nil {
		t.Error(err)
	}
	b.shows(shown)
}

// TestTwoKeys: two keys for one rule, which values do not tell, are told apart by who has
// it; from a key that is not wanted any more it is taken over as it stands.
func TestTwoKeys(t *testing.T) {
	b := newBench(t)
	for _, k := range []scheduler.Key{"rule/a", "rule/b"} {
		err := b.create(k, customer)
		if k == "rule/b" && (err == nil || !strings.Contains(err.Error(), "in use by rule/a")) || k == "rule/a" && err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	b.unwanted["rule/a"] = true
	if err := b.create("rule/b", customer); err != nil {
		t.Error(err)
	}
	if err := b.delete("rule/a", customer); err != nil {
		t.Error(err)
	}
	b.shows(shown + " proto 240")
	if err := b.delete("rule/b", customer); err != nil {
		t.Error(err)
	}
	b.shows("")
}

// TestWatch: what somebody does to ours is news, what we do is not.
func TestWatch(t *testing.T) {
	b := newBench(t)
	news := kindtest.Watch(t, b.kind)
	for _, k := range []scheduler.Key{"rule/a", "rule/own"} {
		v := map[scheduler.Key]string{"rule/a": customer, "rule/own": `{"priority":5,"family":"ipv4","table":7}`}[k]
		if err := b.create(k, v); err != nil {
			t.Fatal(err)
		}
	}
	b.net.IP(t, "rule add pref 1 table 9") // nobody's business
	b.net.IP(t, "rule del pref 1000")
	if heard := news.Key("the deletion", "rule/a"); len(heard) != 1 {
		t.Errorf("news of %v", heard)
	}
}
