package qdisc_test

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
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	"github.com/plumb-net/plumb/descriptors/qdisc"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// bench is the kind on a live kernel, with links a and b in one namespace and a stand-in
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
	kind   scheduler.Descriptor[*models.Qdisc, kernel.LinkRef]
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	b := &bench{Host: h, t: t, net: h.Net, ledger: &kernel.MemLedger{}, names: &kernel.Names{}}
	b.links = kindtest.AddLinks(t, b, b.names, "a", "b")
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
	b.kind = qdisc.New(qdisc.Deps{Kernel: b.Kernel, Owner: b.owner, Names: b.names, Interfaces: b.links})
}

func (b *bench) tc(words string) string {
	b.t.Helper()
	return b.net.Run(b.t, strings.Fields("tc qdisc "+words)...)
}

// hasNetem reports whether the kernel has it; Debian's have, see tests/kernels.
func (b *bench) hasNetem() bool {
	b.t.Helper()
	if err := kerneltest.IP(b, b.Own(), "tc qdisc add dev b root handle 1: netem"); err != nil {
		return false
	}
	b.Do(b.t, b.Own(), "tc qdisc del dev b root")
	return true
}

// unsupported holds the kind to saying once what the kernel lacks, with nothing left.
func (b *bench) unsupported(value string) {
	b.t.Helper()
	err := b.create(value)
	var class *scheduler.OpError
	if !errors.Is(err, kernel.ErrUnsupported) || !errors.As(err, &class) || !class.Terminal {
		b.t.Error(err)
	}
	if left := b.ledger.Entries(""); len(left) != 0 {
		b.t.Error(left)
	}
}

const (
	slow   = `{"interface":"a","tbf":{"rate":1000,"burst":4096,"latency":400}}`
	slowIs = "qdisc tbf 7988: root refcnt 2 rate 1Mbit burst 4Kb lat 400ms"
)

// TestConform holds the kind to the contract of descriptors, on each kernel.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conformTbf(t, newBenchOn(t, h)) })
}

func conformTbf(t *testing.T, b *bench) {
	conform(t, b, `{"interface":"a","tbf":{"rate":1000}}`, `{"interface":"a","tbf":{"rate":100000,"burst":125001,"latency":7}}`,
		`{"interface":"a","tbf":{"rate":10000000}}`, `{"interface":"b","tbf":{"rate":8,"limit":50000}}`)
}

// TestConformNetem: and where the kernel has netem, that too; where not, it says so.
func TestConformNetem(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conformNetem(t, newBenchOn(t, h)) })
}

func conformNetem(t *testing.T, b *bench) {
	if !b.hasNetem() {
		b.unsupported(`{"interface":"a","netem":{"delay":1}}`)
		return
	}
	conform(t, b, `{"interface":"a","netem":{}}`, `{"interface":"a","tbf":{"rate":1000}}`,
		`{"interface":"a","netem":{"delay":20000,"jitter":5000,"loss":1000,"duplicate":100,"corrupt":10,"reorder":999999,"rate":10000,"limit":50}}`,
		`{"interface":"a","netem":{"delay":1,"loss":1}}`)
}

func conform(t *testing.T, b *bench, values ...string) {
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.Qdisc, kernel.LinkRef]{
		Samples: []schedulertest.Sample[*models.Qdisc]{
			{Key: "qdisc/a", Values: decode(t, strings.Join(values, "\n"))},
		},
		Refused: map[scheduler.Key]*models.Qdisc{"qdisc/bad": {Interface: "a"}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Qdisc, kernel.LinkRef] {
			b.restart()
			return b.kind
		},
		Foreign: func(t testing.TB, _ scheduler.Key, v *models.Qdisc) func() bool {
			b.Do(t, b.Own(), "tc qdisc add dev "+v.Interface+" root handle 7: tbf rate 7mbit burst 7000 latency 7ms")
			t.Cleanup(func() { b.Do(t, b.Own(), "tc qdisc del dev "+v.Interface+" root") })
			return func() bool { return b.Shows(t, "dev "+v.Interface, "handle 7: tbf rate 7Mbit") }
		},
		Remove: func(t testing.TB, _ scheduler.Key) {
			for _, link := range []string{"a", "b"} {
				_ = kerneltest.IP(b, b.Own(), "tc qdisc del dev "+link+" root")
			}
		},
		Clone:     proto.CloneOf[*models.Qdisc],
		Identical: func(x, y *models.Qdisc) bool { return proto.Equal(x, y) },
	})
}

func (b *bench) create(v string) error {
	_, err := b.kind.Create(context.Background(), "qdisc/a", decode(b.t, v)[0])
	return err
}

func (b *bench) delete(v string) error {
	return b.kind.Delete(context.Background(), "qdisc/a", decode(b.t, v)[0], b.links["interface/a"])
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// shows is what tc shows of link a.
func (b *bench) shows(want string) {
	b.t.Helper()
	if got := strings.TrimSpace(b.tc("show dev a")); !strings.HasPrefix(got, want) {
		b.t.Errorf("tc shows\n%s, want\n%s", got, want)
	}
}

// reads is what the kind finds, as JSON; "" if nothing.
func (b *bench) reads() (text string) {
	b.t.Helper()
	for f, err := range b.kind.Retrieve(b.t.Context(), scheduler.Scope[*models.Qdisc, kernel.LinkRef]{Keys: []scheduler.Key{"qdisc/a"}}) {
		b.must(err)
		text = string(models.Encode(f.Value))
	}
	return text
}

const none = "qdisc noqueue 0: root refcnt 2"

// TestCrashes: wherever it ends, the next run knows what is ours and finishes.
func TestCrashes(t *testing.T) {
	for _, at := range []string{"qdisc/recorded", "qdisc/made", "qdisc/deleted"} {
		t.Run(at, func(t *testing.T) {
			b := newBench(t)
			b.fail = at
			err := b.create(slow)
			if err == nil {
				err = b.delete(slow)
			}
			if !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			b.fail = ""
			b.restart()
			b.must(b.create(slow))
			b.shows(slowIs)
			b.must(b.delete(slow))
			b.shows(none)
			if left := b.ledger.Entries(""); len(left) != 0 {
				t.Error(left)
			}
		})
	}
}

// TestIncumbentStays: one that somebody else has set is told of, and neither changed nor
// removed; also if he has put it in the place of ours.
func TestIncumbentStays(t *testing.T) {
	b := newBench(t)
	const his = "qdisc htb 1: root"
	b.tc("add dev a root handle 1: htb")
	if err := b.create(slow); err == nil || !strings.Contains(err.Error(), "a has a queueing discipline already, htb 1:") {
		t.Errorf("%v is no conflict", err)
	}
	b.shows(his)
	if left := b.ledger.Entries(""); len(left) != 0 {
		t.Error(left)
	}
	b.tc("del dev a root")
	b.must(b.create(slow))
	b.tc("replace dev a root handle 1: htb")
	if text := b.reads(); text != "" {
		t.Error("his is read as ours:", text)
	}
	b.must(b.delete(slow))
	b.shows(his)
}

// TestOtherWords: what somebody makes of ours is brought back, also what no value can say.
func TestOtherWords(t *testing.T) {
	b := newBench(t)
	b.must(b.create(slow))
	for _, words := range []string{
		"rate 2mbit burst 4096 latency 400ms", "rate 1mbit burst 8192 limit 54096", "rate 1mbit burst 4096 limit 54097",
		"rate 1001bit burst 4096 limit 54096", "rate 1mbit burst 4096 latency 400ms overhead 4",
	} {
		b.tc("change dev a root handle 7988: tbf " + words)
		text := b.reads()
		from, to := &models.Qdisc{}, decode(t, slow)[0]
		if msg, err := models.DecodeKind(models.KindQdisc, []byte(text)); err == nil {
			from, _ = msg.(*models.Qdisc)
		}
		v := b.kind.Compare("qdisc/a", from, to)
		if v.Change == scheduler.Same {
			t.Errorf("%s is read as %s", words, text)
		}
		if v.Change == scheduler.Replace {
			b.must(b.delete(slow))
		}
		b.must(b.create(slow))
		b.shows(slowIs)
	}
	b.tc("del dev a root") // another of our handle, as after a crash between the two
	b.tc("add dev a root handle 7988: htb")
	b.must(b.create(slow))
	b.shows(slowIs)
}

// TestTakenOver: an equal one is had without a write and given back; whoever changes it makes it his own.
func TestTakenOver(t *testing.T) {
	b := newBench(t)
	const adopted = `{"interface":"a","adopt":true,"tbf":{"rate":1000,"burst":4096,"latency":400}}`
	his := strings.Replace(slowIs, "7988", "1", 1)
	b.tc("add dev a root handle 1: tbf rate 1mbit burst 4096 latency 400ms")
	before := b.Writes()
	b.must(b.create(adopted))
	if text := b.reads(); text != adopted {
		t.Error(text)
	}
	b.must(b.delete(adopted))
	if b.Writes() != before {
		t.Error(b.Writes()-before, "writes")
	}
	b.shows(his)
	// A reading finds it as well.
	for f, err := range b.kind.Retrieve(t.Context(), scheduler.Scope[*models.Qdisc, kernel.LinkRef]{
		All: true, Known: []scheduler.Known[*models.Qdisc, kernel.LinkRef]{{Key: "qdisc/a", Value: decode(t, adopted)[0]}}}) {
		if b.must(err); string(models.Encode(f.Value)) != adopted {
			t.Error(f.Value)
		}
	}
	b.must(b.create(slow)) // it is ours to keep, and to remove
	b.shows(slowIs)
	b.must(b.delete(slow))
	b.shows(none)
}

// TestSurvey: what others set is told of as values that take it over without a change.
func TestSurvey(t *testing.T) {
	b := newBench(t)
	for words, want := range map[string]string{
		"tbf rate 1mbit burst 4096 latency 400ms":                  `{"interface":"a","adopt":true,"tbf":{"rate":1000,"burst":4096,"latency":400}}`,
		"tbf rate 1mbit burst 4096 limit 8192":                     `{"interface":"a","adopt":true,"tbf":{"rate":1000,"burst":4096,"limit":8192}}`,
		"tbf rate 40gbit burst 1234567 latency 10ms":               `{"interface":"a","adopt":true,"tbf":{"rate":40000000,"burst":1234567,"latency":10}}`,
		"tbf rate 1001bit burst 4096 limit 8192":                   "",
		"tbf rate 1mbit burst 4k limit 8k peakrate 2mbit mtu 2000": "",
		"htb": "",
	} {
		b.tc("add dev a root handle 1: " + words)
		s := &kind.Survey{Kernel: b, Owner: b.owner, Names: b.names, Places: []kind.Place{{NS: b.Own()}}, Wanted: map[scheduler.Key]proto.Message{}}
		b.must(qdisc.Survey(s))
		got := ""
		for _, f := range s.Found {
			got = string(models.Encode(f.Value))
			before := b.Writes()
			b.must(b.create(got))
			b.must(b.delete(got))
			if b.Writes() != before {
				t.Errorf("%s: %d writes", words, b.Writes()-before)
			}
		}
		if got != want || len(s.Found)+len(s.Left) != 1 {
			t.Errorf("%s: %s, left %v", words, got, s.Left)
		}
		b.tc("del dev a root")
	}
}

// TestUnsupported: a kernel without the discipline says so once.
func TestUnsupported(t *testing.T) {
	k := kerneltest.New(kerneltest.Options{NamedDir: "/run/netns"})
	k.Fail("AddQdisc", 1, syscall.EOPNOTSUPP)
	b := newBenchOn(t, &hosttest.Host{Kernel: k, NamedDir: "/run/netns"})
	b.unsupported(slow)
}

// TestWatch: what somebody does to ours is news, what we do is not.
func TestWatch(t *testing.T) {
	b := newBench(t)
	news := kindtest.Watch(t, b.kind)
	other := decode(t, `{"interface":"b","tbf":{"rate":2000}}`)[0]
	for _, act := range []string{
		"change dev a root handle 7988: tbf rate 2mbit burst 4096 latency 400ms",
		"replace dev a root handle 1: htb",
		"del dev a root",
	} {
		b.must(b.create(slow))
		if _, err := b.kind.Create(t.Context(), "qdisc/b", other); err != nil {
			t.Fatal(err)
		}
		b.tc(act)
		if heard := news.Key(act, "qdisc/a"); slices.Contains(heard, "qdisc/b") {
			t.Errorf("%s: what we did is news: %v", act, heard)
		}
		_, _ = b.net.Try("tc", "qdisc", "del", "dev", "a", "root")
	}
}
