package fdb_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/fdb"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// bench is the kind on a live kernel, with a bridge, its ports p0 and p1, a vxlan and a
// stand-in for the interface kind.
type bench struct {
	*hosttest.Host
	t      *testing.T
	net    *netlinktest.Namespace
	ledger *kernel.MemLedger
	names  *kernel.Names
	links  kindtest.Links
	fail   string
	kind   scheduler.Descriptor[*models.FDB, kernel.LinkRef]
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	b := &bench{Host: h, t: t, net: h.Net, ledger: &kernel.MemLedger{}, names: &kernel.Names{}, links: kindtest.Links{}}
	br := b.add(kernel.LinkSpec{Name: "sw", Bridge: &kernel.BridgeSpec{}, Up: true, MAC: "02:00:00:00:aa:00"})
	b.add(kernel.LinkSpec{Name: "p0", Master: br, Up: true, MAC: "02:00:00:00:aa:01", Veth: &kernel.VethSpec{PeerName: "q0", PeerUp: true}})
	b.add(kernel.LinkSpec{Name: "p1", Master: br, Up: true, Veth: &kernel.VethSpec{PeerName: "q1", PeerUp: true}})
	b.add(kernel.LinkSpec{Name: "vx", Vxlan: &kernel.VxlanSpec{VNI: 10, Port: 4789}})
	if h.Net != nil {
		h.Net.Forwarding(t, "p0", "p1")
	}
	b.restart()
	return b
}

func (b *bench) add(spec kernel.LinkSpec) int {
	b.t.Helper()
	l, err := b.AddLink(b.Own(), spec)
	if err != nil {
		b.t.Fatal(err)
	}
	b.links[scheduler.Key(models.InterfaceKey(spec.Name))] = l.Ref()
	b.names.Put(l.Ref(), spec.Name)
	return l.Index
}

var errCrash = errors.New("crash")

func (b *bench) restart() {
	owner := kernel.NewOwner("host7", "boot", b.ledger, func(name string) error {
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.kind = fdb.New(fdb.Deps{Kernel: b.Kernel, Owner: owner, Names: b.names, Interfaces: b.links})
}

func (b *bench) bridge(t testing.TB, args string) string {
	t.Helper()
	return b.net.Run(t, append([]string{"bridge"}, strings.Fields(args)...)...)
}

// shows compares what bridge(8) says of the MACs of these tests. With VLANs the kernel makes
// each entry of a bridge in VLAN 1 as well.
func (b *bench) shows(want ...string) {
	b.t.Helper()
	if got := b.shown(b.t); !slices.Equal(got, want) {
		b.t.Errorf("bridge shows %q, want %q", got, want)
	}
}

func (b *bench) shown(t testing.TB) (list []string) {
	for line := range strings.Lines(b.bridge(t, "fdb show")) {
		if line = strings.TrimSpace(line); !strings.Contains(line, " vlan 1 ") && (strings.HasPrefix(line, "02:00:00:00:00:") || strings.HasPrefix(line, "00:00:00:00:00:00")) {
			list = append(list, line)
		}
	}
	slices.Sort(list)
	return list
}

// TestConform holds the kind to the contract of descriptors, on each kernel.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	sample := func(name string, values ...string) schedulertest.Sample[*models.FDB] {
		return schedulertest.Sample[*models.FDB]{Key: scheduler.Key(models.FDBKey(name)), Values: decode(t, strings.Join(values, "\n"))}
	}
	first := map[scheduler.Key]string{
		"fdb/port":  "02:00:00:00:00:01 dev p0 master",
		"fdb/other": "02:00:00:00:00:03 dev vx dst 10.0.0.1 self",
		"fdb/flood": "00:00:00:00:00:00 dev vx dst 10.0.0.1 self",
	}
	foreign := map[scheduler.Key]string{
		"fdb/port":  "02:00:00:00:00:01 dev p1 master static",
		"fdb/other": "02:00:00:00:00:03 dev vx dst 10.0.0.77 self static",
		"fdb/flood": "00:00:00:00:00:00 dev vx dst 10.0.0.1 self permanent",
	}
	foreignShown := map[scheduler.Key]string{
		"fdb/port":  "fdb add 02:00:00:00:00:01 dev p1 master static",
		"fdb/other": "fdb append 02:00:00:00:00:03 dev vx dst 10.0.0.77",
		"fdb/flood": "fdb append 00:00:00:00:00:00 dev vx dst 10.0.0.1",
	}
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.FDB, kernel.LinkRef]{
		Samples: []schedulertest.Sample[*models.FDB]{
			sample("port", `{"interface":"p0","mac_address":"02:00:00:00:00:01"}`,
				`{"interface":"p1","mac_address":"02:00:00:00:00:01"}`,
				`{"interface":"p1","mac_address":"02:00:00:00:00:0A"}`),
			sample("other", `{"interface":"vx","mac_address":"02:00:00:00:00:03","address":"10.0.0.1"}`,
				`{"interface":"vx","mac_address":"02:00:00:00:00:03","address":"10.0.0.2"}`),
			sample("flood", `{"interface":"vx","mac_address":"00:00:00:00:00:00","address":"10.0.0.1"}`,
				`{"interface":"vx","mac_address":"00:00:00:00:00:00","address":"10.0.0.2"}`),
		},
		Refused: map[scheduler.Key]*models.FDB{"fdb/bad": {Interface: "p0", MacAddress: "00:00:00:00:00:00"}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.FDB, kernel.LinkRef] {
			b.restart()
			return b.kind
		},
		Foreign: func(t testing.TB, k scheduler.Key, _ *models.FDB) func() bool {
			b.Do(t, b.Own(), "bridge fdb append "+foreign[k])
			t.Cleanup(func() { b.Do(t, b.Own(), "bridge fdb del "+foreign[k]) })
			return func() bool { return b.Shows(t, foreignShown[k]) }
		},
		Remove:    func(t testing.TB, k scheduler.Key) { b.Do(t, b.Own(), "bridge fdb del "+first[k]) },
		Clone:     proto.CloneOf[*models.FDB],
		Identical: func(x, y *models.FDB) bool { return proto.Equal(x, y) },
	})
}

const (
	port   = `{"interface":"p0","mac_address":"02:00:00:00:00:01"}`
	remote = `{"interface":"vx","mac_address":"02:00:00:00:00:01","address":"10.0.0.1"}`
	flood  = `{"interface":"vx","mac_address":"00:00:00:00:00:00","address":"10.0.0.1"}`
)

// shownAs is what bridge(8) shows of the values above.
var shownAs = map[string]string{
	port:   "02:00:00:00:00:01 dev p0 master sw static",
	remote: "02:00:00:00:00:01 dev vx dst 10.0.0.1 self permanent",
	flood:  "00:00:00:00:00:00 dev vx dst 10.0.0.1 self permanent",
}

func (b *bench) create(k scheduler.Key, v string) error {
	_, err := b.kind.Create(context.Background(), k, decode(b.t, v)[0])
	return err
}

func (b *bench) delete(k scheduler.Key, v string) error {
	value := decode(b.t, v)[0]
	return b.kind.Delete(context.Background(), k, value, b.links[scheduler.Key(models.InterfaceKey(value.Interface))])
}

// found is what is read of a key.
func (b *bench) found(k scheduler.Key) *models.FDB {
	b.t.Helper()
	for f, err := range b.kind.Retrieve(context.Background(), scheduler.Scope[*models.FDB, kernel.LinkRef]{Keys: []scheduler.Key{k}}) {
		if err != nil {
			b.t.Error(err)
		}
		return f.Value
	}
	return nil
}

// refused holds that a key is not made, for this reason, and leaves no trace.
func (b *bench) refused(k scheduler.Key, v, why string) {
	b.t.Helper()
	had := b.ledger.Entries("")
	if err := b.create(k, v); err == nil || !strings.Contains(err.Error(), why) {
		b.t.Errorf("%v, want %s", err, why)
	}
	if left := b.ledger.Entries(""); len(left) != len(had) {
		b.t.Error(left)
	}
}

// TestCrashes: wherever it ends, the next run knows what is ours and finishes.
func TestCrashes(t *testing.T) {
	for v, shown := range shownAs {
		for _, at := range []string{"fdb/recorded", "fdb/made", "fdb/deleted"} {
			t.Run(shown[:17]+at, func(t *testing.T) {
				b := newBench(t)
				b.fail = at
				err := b.create("fdb/a", v)
				if err == nil {
					err = b.delete("fdb/a", v)
				}
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				b.fail = ""
				b.restart()
				if err := b.create("fdb/a", v); err != nil {
					t.Fatal(err)
				}
				b.shows(shown)
				if err := b.delete("fdb/a", v); err != nil {
					t.Fatal(err)
				}
				b.shows()
				if left := b.ledger.Entries(""); len(left) != 0 {
					t.Error(left)
				}
			})
		}
	}
}

// TestIncumbentStays: one that somebody else has set is told of, and neither changed nor
// removed, also if it is what is asked for; so is one that he has put in the place of ours.
func TestIncumbentStays(t *testing.T) {
	for _, c := range []struct{ value, his, shown, told string }{
		{port, "02:00:00:00:00:01 dev p1 master static", "02:00:00:00:00:01 dev p1 master sw static",
			"has an entry already, to p1, which is not of this key; remove it with: bridge fdb del 02:00:00:00:00:01 dev p1 master"},
		{port, "02:00:00:00:00:01 dev p0 master static", shownAs[port], "has an entry already, to p0"},
		{port, "02:00:00:00:00:01 dev p0 master permanent", "02:00:00:00:00:01 dev p0 master sw permanent", "the bridge takes frames for 02:00:00:00:00:01 itself"},
		{remote, "02:00:00:00:00:01 dev vx dst 10.0.0.9 self static", "02:00:00:00:00:01 dev vx dst 10.0.0.9 self static",
			"has an entry already, to 10.0.0.9, which is not of this key; remove it with: bridge fdb del 02:00:00:00:00:01 dst 10.0.0.9 dev vx self"},
		{remote, shownAs[remote], shownAs[remote], "has an entry already, to 10.0.0.1"},
		{flood, shownAs[flood], shownAs[flood], "has an entry already, to 10.0.0.1"},
	} {
		b := newBench(t)
		b.bridge(t, "fdb append "+c.his)
		b.fail = "fdb/recorded" // after a crash there it would be taken for ours
		b.restart()
		b.refused("fdb/a", c.value, c.told)
		b.fail = ""
		b.restart()
		if v := b.found("fdb/a"); v != nil {
			t.Error(v)
		}
		if err := b.delete("fdb/a", c.value); err != nil {
			t.Error(err)
		}
		b.shows(c.shown)
		b.bridge(t, "fdb del "+c.his)
		if c.shown == shownAs[c.value] || strings.HasSuffix(c.his, "static") && c.value == port {
			continue // the kernel has nothing by which it could be told from ours
		}
		if err := b.create("fdb/a", c.value); err != nil {
			t.Fatal(err)
		}
		b.bridge(t, "fdb del "+strings.Replace(strings.TrimSuffix(shownAs[c.value], " static"), "sw", "", 1))
		b.bridge(t, "fdb append "+c.his)
		if v := b.found("fdb/a"); v != nil {
			t.Error(v)
		}
		b.refused("fdb/a", c.value, c.told)
		if err := b.delete("fdb/a", c.value); err != nil {
			t.Error(err)
		}
		b.shows(c.shown)
	}
}

// TestKernelsOwnStays: the MAC of a port is the kernel's.
func TestKernelsOwnStays(t *testing.T) {
	b := newBench(t)
	b.refused("fdb/a", `{"interface":"p0","mac_address":"02:00:00:00:AA:01"}`, "the bridge takes frames for 02:00:00:00:aa:01 itself, as the address of p0")
	if err := b.delete("fdb/a", port); err != nil {
		t.Error(err)
	}
	if out := b.bridge(t, "fdb show dev p0"); !strings.Contains(out, "02:00:00:00:aa:01 master sw permanent") {
		t.Error(out)
	}
}

// TestLearntGivesWay: what the kernel has learnt is nobody's.
func TestLearntGivesWay(t *testing.T) {
	b := newBench(t)
	b.bridge(t, "fdb add 02:00:00:00:00:01 dev p1 master dynamic")
	b.bridge(t, "fdb add 02:00:00:00:00:01 dev vx dst 10.0.0.9 self dynamic")
	for k, v := range map[scheduler.Key]string{"fdb/port": port, "fdb/remote": remote} {
		if err := b.create(k, v); err != nil {
			t.Error(err)
		}
	}
	b.shows(shownAs[port], shownAs[remote])
}

// TestRoamed: the bridge has moved ours to the port at which its station speaks. It is still
// ours: it is read as it is, and removed from there.
func TestRoamed(t *testing.T) {
	b := newBench(t)
	if err := b.create("fdb/a", port); err != nil {
		t.Fatal(err)
	}
	b.net.IP(t, "link set q1 down")
	b.net.IP(t, "link set q1 address 02:00:00:00:00:01 up") // it looks for its neighbors
	const moved = "02:00:00:00:00:01 dev p1 master sw static"
	netlinktest.Eventually(t, "the entry moves", func() bool { return slices.Equal(b.shown(t), []string{moved}) })
	b.restart()
	v := b.found("fdb/a")
	if v.GetInterface() != "p1" {
		t.Fatal(v)
	}
	if verdict := b.kind.Compare("fdb/a", v, decode(t, port)[0]); verdict.Change != scheduler.Replace {
		t.Error(verdict)
	}
	// Another key that wants it is told whose it is.
	b.refused("fdb/b", `{"interface":"p1","mac_address":"02:00:00:00:00:01"}`, "that of fdb/a")
	b.net.IP(t, "link set q1 down")
	if err := b.create("fdb/a", port); err != nil { // a creation brings it back
		t.Error(err)
	}
	b.shows(shownAs[port])
	b.bridge(t, "fdb replace 02:00:00:00:00:01 dev p1 master static")
	if err := b.delete("fdb/a", port); err != nil {
		t.Error(err)
	}
	b.shows()
}

// TestOneOfTwoKeys: two ports of a bridge share its entries, which their values do not tell.
func TestOneOfTwoKeys(t *testing.T) {
	b := newBench(t)
	ops := []*scheduler.Op[*models.FDB, kernel.LinkRef]{
		{Key: "fdb/a", Value: decode(t, port)[0]},
		{Key: "fdb/b", Value: decode(t, `{"interface":"p1","mac_address":"02:00:00:00:00:01"}`)[0]},
	}
	b.kind.CreateBatch(t.Context(), ops)
	if err := ops[1].Err; ops[0].Err != nil || err == nil || !strings.Contains(err.Error(), "that of fdb/a") {
		t.Error(ops[0].Err, err)
	}
	b.shows(shownAs[port])
	if left := b.ledger.Entries(""); len(left) != 1 || left[0].ID != "fdb/a" {
		t.Error(left)
	}
}

// TestWrongInterface: what an interface cannot have is not asked of the kernel, which would
// make something else of it.
func TestWrongInterface(t *testing.T) {
	b := newBench(t)
	b.add(kernel.LinkSpec{Name: "vx6", Vxlan: &kernel.VxlanSpec{VNI: 11, Port: 4790, Local: netip.MustParseAddr("fd00::1"), Remote: netip.MustParseAddr("fd00::2")}})
	for v, why := range map[string]string{
		`{"interface":"vx","mac_address":"02:00:00:00:00:01"}`:                         "vx is not a port of a bridge",
		`{"interface":"p0","mac_address":"02:00:00:00:00:01","address":"10.0.0.1"}`:    "p0 is not a vxlan",
		`{"interface":"vx","mac_address":"02:00:00:00:00:01","address":"fd00::1"}`:     "vx sends by IPv4",
		`{"interface":"vx6","mac_address":"02:00:00:00:00:01","address":"10.0.0.1"}`:   "vx6 sends by IPv6",
		`{"interface":"vx6","mac_address":"00:00:00:00:00:00","address":"fd00::2"}`:    "vx6 has this entry by itself, as its remote is fd00::2",
		`{"interface":"p0","mac_address":"02:00:00:00:00:01","vlan":10}`:               "VLAN 10 is not on the port",
		`{"interface":"nobody","mac_address":"02:00:00:00:00:01","address":"fd00::2"}`: "interface/nobody is not there any more",
	} {
		b.refused("fdb/a", v, why)
	}
}

// TestWatch: what somebody, or the bridge, does to ours is news, what we do is not.
func TestWatch(t *testing.T) {
	b := newBench(t)
	news := kindtest.Watch(t, b.kind)
	for _, c := range []struct {
		key scheduler.Key
		act string
	}{
		{"fdb/port", "ip link set p0 nomaster"},
		{"fdb/port", "bridge fdb replace 02:00:00:00:00:01 dev p1 master static"},
		{"fdb/port", "bridge fdb replace 02:00:00:00:00:01 dev p0 master dynamic"},
		{"fdb/port", "bridge fdb del 02:00:00:00:00:01 dev p0 master"},
		{"fdb/remote", "bridge fdb replace 02:00:00:00:00:01 dev vx dst 10.0.0.9 self permanent"},
		{"fdb/remote", "bridge fdb replace 02:00:00:00:00:01 dev vx dst 10.0.0.1 self dynamic"},
		{"fdb/flood", "bridge fdb del 00:00:00:00:00:00 dev vx dst 10.0.0.1 self"},
		{"fdb/flood", "ip link del vx"},
	} {
		for k, v := range map[scheduler.Key]string{"fdb/own": `{"interface":"p1","mac_address":"02:00:00:00:00:03"}`, "fdb/port": port, "fdb/remote": remote, "fdb/flood": flood} {
			if err := b.create(k, v); err != nil && !strings.Contains(err.Error(), "dst 10.0.0.9") {
				t.Fatal(err)
			}
		}
		b.net.Run(t, strings.Fields(c.act)...)
		if heard := news.Key(c.act, c.key); slices.Contains(heard, "fdb/own") {
			t.Errorf("%s: what we did is news: %v", c.act, heard)
		}
		b.net.IP(t, "link set p0 master sw")
	}
}
