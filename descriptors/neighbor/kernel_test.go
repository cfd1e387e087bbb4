package neighbor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	"github.com/plumb-net/plumb/descriptors/neighbor"
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
	kind   scheduler.Descriptor[*models.Neighbor, kernel.LinkRef]
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
	owner := kernel.NewOwner("host7", "boot", b.ledger, func(name string) error {
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.kind = neighbor.New(neighbor.Deps{Kernel: b.Kernel, Owner: owner, Names: b.names, Interfaces: b.links})
}

// TestConform holds the kind to the contract of descriptors, on each kernel.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	sample := func(name string, values ...string) schedulertest.Sample[*models.Neighbor] {
		return schedulertest.Sample[*models.Neighbor]{Key: scheduler.Key(models.NeighborKey(name)), Values: decode(t, strings.Join(values, "\n"))}
	}
	first := map[scheduler.Key]string{"neighbor/four": "10.0.0.2 dev a", "neighbor/six": "fd00::2 dev b"}
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.Neighbor, kernel.LinkRef]{
		Samples: []schedulertest.Sample[*models.Neighbor]{
			sample("four", `{"interface":"a","address":"10.0.0.2","mac_address":"02:00:00:00:00:01"}`,
				`{"interface":"a","address":"10.0.0.2","mac_address":"02:00:00:00:00:02"}`,
				`{"interface":"b","address":"10.0.0.2","mac_address":"02:00:00:00:00:02"}`),
			sample("six", `{"interface":"b","address":"fd00::2","mac_address":"02:00:00:00:00:0A"}`,
				`{"interface":"b","address":"fd00::3","mac_address":"02:00:00:00:00:0A"}`),
		},
		Refused: map[scheduler.Key]*models.Neighbor{"neighbor/bad": {Interface: "a", Address: "10.0.0.300"}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Neighbor, kernel.LinkRef] {
			b.restart()
			return b.kind
		},
		Foreign: func(t testing.TB, k scheduler.Key, _ *models.Neighbor) func() bool {
			b.Do(t, b.Own(), "ip neigh add "+first[k]+" lladdr 02:00:00:00:00:77 nud permanent")
			t.Cleanup(func() { b.Do(t, b.Own(), "ip neigh del "+first[k]) })
			return func() bool { return b.Shows(t, "ip neigh add", "02:00:00:00:00:77") }
		},
		Remove:    func(t testing.TB, k scheduler.Key) { b.Do(t, b.Own(), "ip neigh del "+first[k]) },
		Clone:     proto.CloneOf[*models.Neighbor],
		Identical: func(x, y *models.Neighbor) bool { return proto.Equal(x, y) },
	})
}

const router = `{"interface":"a","address":"10.0.0.2","mac_address":"02:00:00:00:00:01"}`

func (b *bench) create(v string) error {
	_, err := b.kind.Create(context.Background(), "neighbor/router", decode(b.t, v)[0])
	return err
}

func (b *bench) shows(want string) {
	b.t.Helper()
	if got := strings.TrimSpace(b.net.IP(b.t, "neigh show nud permanent")); !strings.HasPrefix(got, want) || want == "" && got != "" {
		b.t.Errorf("ip shows %q, want %q", got, want)
	}
}

// TestCrashes: wherever it ends, the next run knows what is ours and finishes.
func TestCrashes(t *testing.T) {
	for _, at := range []string{"neighbor/recorded", "neighbor/made", "neighbor/deleted"} {
		t.Run(at, func(t *testing.T) {
			b := newBench(t)
			b.fail = at
			v := decode(t, router)[0]
			err := b.create(router)
			if err == nil {
				err = b.kind.Delete(context.Background(), "neighbor/router", v, b.links["interface/a"])
			}
			if !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			b.fail = ""
			b.restart()
			if err := b.create(router); err != nil {
				t.Fatal(err)
			}
			b.shows("10.0.0.2 dev a lladdr 02:00:00:00:00:01")
			if err := b.kind.Delete(context.Background(), "neighbor/router", v, b.links["interface/a"]); err != nil {
				t.Fatal(err)
			}
			b.shows("")
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
	const his = "10.0.0.2 dev a lladdr 02:00:00:00:00:77"
	b.net.IP(t, "neigh add "+his+" nud permanent")
	if err := b.create(router); err == nil || !strings.Contains(err.Error(), "10.0.0.2 has a neighbor already, 02:00:00:00:00:77") {
		t.Errorf("%v is no conflict", err)
	}
	b.shows(his)
	if left := b.ledger.Entries(""); len(left) != 0 {
		t.Error(left)
	}
	b.net.IP(t, "neigh del 10.0.0.2 dev a")
	if err := b.create(router); err != nil {
		t.Fatal(err)
	}
	b.net.IP(t, "neigh del 10.0.0.2 dev a")
	b.net.IP(t, "neigh add "+his+" nud permanent")
	if err := b.kind.Delete(context.Background(), "neighbor/router", decode(t, router)[0], b.links["interface/a"]); err != nil {
		t.Error(err)
	}
	b.shows(his)
}

// TestWatch: what somebody does to ours is news, what we do is not.
func TestWatch(t *testing.T) {
	b := newBench(t)
	news := kindtest.Watch(t, b.kind)
	for _, act := range []string{
		"neigh replace 10.0.0.2 dev a lladdr 02:00:00:00:00:77 nud permanent",
		"neigh replace 10.0.0.2 dev a lladdr 02:00:00:00:00:01 nud stale",
		"neigh del 10.0.0.2 dev a",
		"link set dev a down",
	} {
		for k, v := range map[scheduler.Key]string{"neighbor/own": `{"interface":"b","address":"10.0.0.3","mac_address":"02:00:00:00:00:03"}`, "neighbor/router": router} {
			if _, err := b.kind.Create(t.Context(), k, decode(t, v)[0]); err != nil {
				t.Fatal(err)
			}
		}
		b.net.IP(t, act)
		if heard := news.Key(act, "neighbor/router"); slices.Contains(heard, "neighbor/own") {
			t.Errorf("%s: what we did is news: %v", act, heard)
		}
	}
}
