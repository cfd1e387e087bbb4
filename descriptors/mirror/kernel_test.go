package mirror_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	"github.com/plumb-net/plumb/descriptors/mirror"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// bench is the kind on a live kernel, with links a, b and c in one namespace and a stand-in
// for the interface kind.
type bench struct {
	*hosttest.Host
	t      *testing.T
	net    *netlinktest.Namespace
	ledger *kernel.MemLedger
	names  *kernel.Names
	links  kindtest.Links
	fail   string
	owner  *kernel.Owner
	kind   scheduler.Descriptor[*models.Mirror, kernel.LinkRef]
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	b := &bench{Host: h, t: t, net: h.Net, ledger: &kernel.MemLedger{}, names: &kernel.Names{}}
	b.links = kindtest.AddLinks(t, b, b.names, "a", "b", "c")
	b.restart()
	return b
}

var errCrash = errors.New("crash")

func (b *bench) restart() {
	b.owner = kernel.NewOwner("host7", "boot", b.ledger, func(name string) error {
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.kind = mirror.New(mirror.Deps{Kernel: b.Kernel, Owner: b.owner, Names: b.names, Interfaces: b.links})
}

func (b *bench) tc(words string) string {
	b.t.Helper()
	return b.net.Run(b.t, strings.Fields("tc "+words)...)
}

const (
	in   = `{"interface":"a","to":"b"}`
	both = `{"interface":"a","to":"b","direction":"both"}`
)

// TestConform holds the kind to the contract of descriptors. A hook for what comes in alone is
// in the way of what leaves.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.Mirror, kernel.LinkRef]{
		Samples: []schedulertest.Sample[*models.Mirror]{
			{Key: "mirror/one", Values: decode(t, both+`
{"interface":"a","to":"c","direction":"both"}
{"interface":"a","to":"c","direction":"egress"}
{"interface":"c","to":"a","direction":"egress"}`)},
			{Key: "mirror/two", Values: decode(t, `{"interface":"b","to":"c","direction":"egress"}
{"interface":"b","to":"a","direction":"both"}`)},
		},
		Refused: map[scheduler.Key]*models.Mirror{"mirror/bad": {Interface: "a", To: "a"}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Mirror, kernel.LinkRef] {
			b.restart()
			return b.kind
		},
		Foreign: func(t testing.TB, _ scheduler.Key, v *models.Mirror) func() bool {
			b.Do(t, b.Own(), "tc qdisc add dev "+v.Interface+" ingress")
			t.Cleanup(func() { b.Do(t, b.Own(), "tc qdisc del dev "+v.Interface+" ingress") })
			return func() bool { return b.Shows(t, "dev "+v.Interface, "ingress") }
		},
		Remove: func(t testing.TB, k scheduler.Key) {
			for _, link := range []string{"a", "b", "c"} {
				l, err := b.Link(b.Own(), link)
				b.must(err)
				for _, egress := range []bool{false, true} {
					filters, err := b.Filters(b.Own(), l.Index, egress)
					b.must(err)
					for _, f := range filters {
						if f.Mark == b.owner.Digest(string(k)) {
							b.must(b.DeleteFilter(b.Own(), f))
						}
					}
				}
				if !b.Shows(t, "tc filter add dev "+link+" ") {
					_ = kerneltest.IP(b, b.Own(), "tc qdisc del dev "+link+" clsact")
				}
			}
		},
		Clone:     proto.CloneOf[*models.Mirror],
		Identical: func(x, y *models.Mirror) bool { return proto.Equal(x, y) },
	})
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) create(k scheduler.Key, v string) error {
	_, err := b.kind.Create(context.Background(), k, decode(b.t, v)[0])
	return err
}

func (b *bench) delete(k scheduler.Key, v string) error {
	return b.kind.Delete(context.Background(), k, decode(b.t, v)[0], b.links["interface/a"])
}

// reads is what the kind finds of a key, as JSON; "" if nothing.
func (b *bench) reads(k scheduler.Key) (text string) {
	b.t.Helper()
	for f, err := range b.kind.Retrieve(b.t.Context(), scheduler.Scope[*models.Mirror, kernel.LinkRef]{Keys: []scheduler.Key{k}}) {
		b.must(err)
		text = string(models.Encode(f.Value))
	}
	return text
}

// left is all that is at the hook of link a: its kind, and where copies go.
func (b *bench) left() string {
	b.t.Helper()
	var words []string
	for line := range strings.Lines(b.tc("qdisc show dev a")) {
		if hook := strings.Fields(line)[1]; hook != "noqueue" {
			words = append(words, hook)
		}
	}
	hooks := []string{"ingress", "egress"}
	if slices.Contains(words, "ingress") {
		hooks = hooks[:1] // tc shows the same at the other
	}
	for _, at := range hooks {
		text, _ := b.net.Try("tc", "filter", "show", "dev", "a", at)
		for line := range strings.Lines(text) {
			switch {
			case strings.Contains(line, "mirred"):
				words = append(words, at+":"+strings.Trim(strings.Fields(line)[8], ")"))
			case strings.Contains(line, "flowid 7:7"):
				words = append(words, at+":foreign")
			}
		}
	}
	return strings.Join(words, " ")
}

func (b *bench) leaves(want string) {
	b.t.Helper()
	if got := b.left(); got != want {
		b.t.Errorf("left is %q, want %q", got, want)
	}
}

// TestCrashes: wherever it ends, the next run knows what is ours and finishes.
func TestCrashes(t *testing.T) {
	for _, at := range []string{"mirror/recorded", "mirror/made", "mirror/deleted"} {
		t.Run(at, func(t *testing.T) {
			b := newBench(t)
			b.fail = at
			err := b.create("mirror/a", both)
			if err == nil {
				err = b.delete("mirror/a", both)
			}
			if !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			b.fail = ""
			b.restart()
			b.must(b.create("mirror/a", both))
			b.leaves("clsact ingress:b egress:b")
			b.must(b.delete("mirror/a", both))
			b.leaves("")
			if left := b.ledger.Entries(""); len(left) != 0 {
				t.Error(left)
			}
		})
	}
}

// TestHookIsEverybodys: it goes with the last filter, if we made it; what others have at it
// stays, and so does it then.
func TestHookIsEverybodys(t *testing.T) {
	b := newBench(t)
	b.must(b.create("mirror/a", in))
	b.leaves("clsact ingress:b")
	b.must(b.create("mirror/b", `{"interface":"a","to":"c","direction":"egress"}`))
	b.leaves("clsact ingress:b egress:c")
	b.must(b.delete("mirror/a", in))
	b.leaves("clsact egress:c")
	b.must(b.delete("mirror/b", in))
	b.leaves("")
	const foreign = "filter add dev a ingress protocol ip u32 match ip dst 10.0.0.1/32 flowid 7:7"
	b.must(b.create("mirror/a", both))
	b.tc(foreign)
	b.must(b.delete("mirror/a", in))
	b.leaves("clsact ingress:foreign")
	b.tc("filter del dev a ingress")
	b.must(b.create("mirror/a", both))
	b.must(b.delete("mirror/a", both))
	b.leaves("clsact") // it was there before
	b.tc("qdisc del dev a clsact")
	b.tc("qdisc add dev a ingress")
	b.must(b.create("mirror/a", in))
	b.leaves("ingress ingress:b")
	if text := b.reads("mirror/a"); text != `{"interface":"a","to":"b","direction":"ingress"}` {
		t.Error(text)
	}
	if err := b.create("mirror/b", both); err == nil || !strings.Contains(err.Error(), "interface/a has the hook ingress") {
		t.Error(err)
	}
	b.must(b.delete("mirror/a", in))
	b.leaves("ingress")
	if left := b.ledger.Entries(""); len(left) != 0 {
		t.Error(left)
	}
}

// TestMended: what somebody does to ours is seen and brought back; a link that went is too.
func TestMended(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct{ act, says string }{
		"one way is gone": {"filter del dev a egress", `{"interface":"a","to":"b","direction":"ingress"}`},
		"both are gone":   {"filter del dev a ingress;filter del dev a egress", `{"interface":"a","to":"?","direction":"ingress"}`},
		"all is gone":     {"qdisc del dev a clsact", ""},
	} {
		b.must(b.create("mirror/a", both))
		for act := range strings.SplitSeq(c.act, ";") {
			b.tc(act)
		}
		if text := b.reads("mirror/a"); text != c.says {
			t.Errorf("%s: %s", name, text)
		}
		b.must(b.create("mirror/a", both))
		b.leaves("clsact ingress:b egress:b")
	}
	l, err := b.Link(b.Own(), "a")
	b.must(err)
	// Twice, and another way, under our own mark.
	for _, to := range []string{"interface/b", "interface/c"} {
		b.must(b.AddFilter(b.Own(), kernel.Filter{Index: l.Index, Mark: b.owner.Digest("mirror/a"), To: b.links[scheduler.Key(to)].Index}))
		if text := b.reads("mirror/a"); !strings.Contains(text, `"to":"?"`) {
			t.Error(text)
		}
		b.must(b.create("mirror/a", both))
		b.leaves("clsact ingress:b egress:b")
	}
	b.net.IP(t, "link del dev b")
	if text := b.reads("mirror/a"); text != `{"interface":"a","to":"?0","direction":"both"}` {
		t.Error(text)
	}
	fresh, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: "b", Bridge: &kernel.BridgeSpec{}, Up: true})
	b.must(err)
	b.links["interface/b"] = fresh.Ref()
	b.must(b.create("mirror/a", both))
	b.leaves("clsact ingress:b egress:b")
	b.net.IP(t, "link del dev a")
	if text := b.reads("mirror/a"); text != "" {
		t.Error(text)
	}
}

// TestOtherNamespace: a copy cannot leave by it.
func TestOtherNamespace(t *testing.T) {
	b := newBench(t)
	ns, _ := b.Named(t, "blue")
	l, err := b.AddLink(ns, kernel.LinkSpec{Name: "x", Bridge: &kernel.BridgeSpec{}})
	b.must(err)
	b.links["interface/x"] = l.Ref()
	if err := b.create("mirror/a", `{"interface":"a","to":"x"}`); err == nil || !strings.Contains(err.Error(), "interface/x lives in another namespace") {
		t.Error(err)
	}
	b.leaves("")
}

// TestUnsupported: a kernel without hooks says so once, and nothing is left.
func TestUnsupported(t *testing.T) {
	k := kerneltest.New(kerneltest.Options{NamedDir: "/run/netns"})
	k.Fail("AddQdisc", 1, syscall.EOPNOTSUPP)
	b := newBenchOn(t, &hosttest.Host{Kernel: k, NamedDir: "/run/netns"})
	err := b.create("mirror/a", in)
	var class *scheduler.OpError
	if !errors.Is(err, kernel.ErrUnsupported) || !errors.As(err, &class) || !class.Terminal {
		t.Error(err)
	}
	if left := b.ledger.Entries(""); len(left) != 0 {
		t.Error(left)
	}
}

// TestWatch: what somebody does to ours is news, what we do is not.
func TestWatch(t *testing.T) {
	b := newBench(t)
	news := kindtest.Watch(t, b.kind)
	for _, act := range []string{"filter del dev a ingress", "filter del dev a ingress pref 28672", "qdisc del dev a clsact"} {
		b.must(b.create("mirror/c", `{"interface":"c","to":"b","direction":"both"}`))
		b.must(b.create("mirror/a", in))
		b.tc(act)
		if heard := news.Key(act, "mirror/a"); slices.Contains(heard, "mirror/c") {
			t.Errorf("%s: what we did is news: %v", act, heard)
		}
	}
}
