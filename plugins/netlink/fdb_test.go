package netlink_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

const (
	station = "02:00:00:00:00:01"
	other   = "02:00:00:00:00:02"
	flood   = "00:00:00:00:00:00"
)

// switched is a kernel with a bridge with two ports, p0 and p1, and a vxlan.
type switched struct {
	*bench
	br, p0, p1, vx int
}

func newSwitched(t *testing.T) *switched {
	b := &switched{bench: newKernel(t, netlink.Options{})}
	b.br = b.add(t, b.Own(), kernel.LinkSpec{Name: "br", Up: true, MAC: "02:00:00:00:aa:00", Bridge: &kernel.BridgeSpec{}}).Index
	b.p0 = b.add(t, b.Own(), kernel.LinkSpec{Name: "p0", Master: b.br, Up: true, MAC: "02:00:00:00:aa:01", Veth: &kernel.VethSpec{PeerName: "q0", PeerUp: true}}).Index
	b.p1 = b.add(t, b.Own(), kernel.LinkSpec{Name: "p1", Master: b.br, Up: true, MAC: "02:00:00:00:aa:02", Veth: &kernel.VethSpec{PeerName: "q1", PeerUp: true}}).Index
	b.vx = b.add(t, b.Own(), kernel.LinkSpec{Name: "vx", Vxlan: &kernel.VxlanSpec{VNI: 10, Port: 4789}}).Index
	b.own.Forwarding(t, "p0", "p1")
	return b
}

func (b *switched) at(port int, mac string) kernel.FDBEntry {
	return kernel.FDBEntry{Table: b.br, Port: port, MAC: mac}
}

func (b *switched) to(mac, address string) kernel.FDBEntry {
	return kernel.FDBEntry{Table: b.vx, MAC: mac, Address: addr(address)}
}

func (b *switched) bridge(t *testing.T, args string) string {
	t.Helper()
	return b.own.Run(t, append([]string{"bridge"}, strings.Fields(args)...)...)
}

// forwards compares what bridge(8) says of the MACs of these tests. With VLANs the kernel
// makes each entry of a bridge in VLAN 1 as well, and shows it.
func (b *switched) forwards(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(b.bridge(t, "fdb show")) {
		if line = strings.TrimSpace(line); !strings.Contains(line, " vlan 1 ") && (strings.HasPrefix(line, "02:00:00:00:00:") || strings.HasPrefix(line, flood)) {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("bridge shows %q, want %q", got, want)
	}
}

func TestFDB(t *testing.T) {
	b := newSwitched(t)
	all := []kernel.FDBEntry{b.at(b.p0, station), b.to(flood, "10.0.0.1"), b.to(flood, "10.0.0.2"), b.to(station, "10.0.0.1")}
	for _, e := range all {
		if err := b.AddFDBEntry(b.Own(), e); err != nil {
			t.Fatal(err)
		}
		if err := b.AddFDBEntry(b.Own(), e); !errors.Is(err, kernel.ErrExist) {
			t.Errorf("a second time: %v", err)
		}
		if got, err := b.FDBEntry(b.Own(), e); err != nil || got != e {
			t.Errorf("%v %v, want %v", got, err, e)
		}
	}
	for _, e := range []kernel.FDBEntry{b.at(b.p1, station), b.to(station, "10.0.0.9")} {
		if err := b.AddFDBEntry(b.Own(), e); !errors.Is(err, kernel.ErrExist) {
			t.Errorf("in the place of another: %v", err)
		}
	}
	b.forwards(t, station+" dev p0 master br static", station+" dev vx dst 10.0.0.1 self permanent",
		flood+" dev vx dst 10.0.0.1 self permanent", flood+" dev vx dst 10.0.0.2 self permanent")
	list, err := b.FDB(b.Own())
	if list = slices.DeleteFunc(list, func(e kernel.FDBEntry) bool { return e.Local || e.VLAN != 0 }); err != nil || !slices.Equal(list, all) {
		t.Errorf("%v %v", list, err)
	}
	if _, err := b.FDBEntry(b.Own(), b.to(flood, "10.0.0.3")); !errors.Is(err, kernel.ErrNotExist) {
		t.Error(err)
	}
	for _, e := range []kernel.FDBEntry{b.at(b.p0, station), b.to(station, "10.0.0.1")} {
		for _, want := range []error{nil, kernel.ErrNotExist} {
			if err := b.DeleteFDBEntry(b.Own(), e); !errors.Is(err, want) {
				t.Errorf("deleted %v: %v, want %v", e, err, want)
			}
		}
	}
	if err := b.DeleteFDBEntry(b.Own(), b.to(flood, "10.0.0.1")); err != nil {
		t.Error(err)
	}
	b.forwards(t, flood+" dev vx dst 10.0.0.2 self permanent")
}

// TestFDBOfOthers: what somebody else has set is told of and stays; the MAC of a port is the
// kernel's own; what a bridge or vxlan has learnt is not listed and gives way.
func TestFDBOfOthers(t *testing.T) {
	b := newSwitched(t)
	for _, c := range []struct {
		have, show string
		add        kernel.FDBEntry
	}{
		{station + " dev p1 master static", "dev p1 master br static", b.at(b.p0, station)},
		{station + " dev p0 master permanent", "dev p0 master br permanent", b.at(b.p0, station)},
		{station + " dev p0 master extern_learn dynamic", "dev p0 extern_learn master br", b.at(b.p0, station)},
		{station + " dev vx dst 10.0.0.9 self static", "dev vx dst 10.0.0.9 self static", b.to(station, "10.0.0.1")},
		{station + " dev vx dst 10.0.0.1 port 99 self permanent", "dev vx dst 10.0.0.1 port 99 self permanent", b.to(station, "10.0.0.1")},
	} {
		b.bridge(t, "fdb add "+c.have)
		if err := b.AddFDBEntry(b.Own(), c.add); !errors.Is(err, kernel.ErrExist) {
			t.Errorf("%s: %v", c.have, err)
		}
		if there, err := b.FDBEntry(b.Own(), c.add); err != nil || there == c.add {
			t.Errorf("%s: %v %v", c.have, there, err)
		}
		b.forwards(t, station+" "+c.show)
		b.bridge(t, "fdb del "+c.have)
	}
	if err := b.AddFDBEntry(b.Own(), b.at(b.p0, "02:00:00:00:aa:01")); !errors.Is(err, kernel.ErrExist) {
		t.Error(err)
	}
	b.bridge(t, "fdb add "+station+" dev p1 master dynamic")
	b.bridge(t, "fdb add "+station+" dev vx dst 10.0.0.9 self dynamic")
	list, err := b.FDB(b.Own())
	if list = slices.DeleteFunc(list, func(e kernel.FDBEntry) bool { return e.Local }); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	for _, e := range []kernel.FDBEntry{b.at(b.p0, station), b.to(station, "10.0.0.1")} {
		if _, err := b.FDBEntry(b.Own(), e); !errors.Is(err, kernel.ErrNotExist) {
			t.Error(err)
		}
		if err := b.AddFDBEntry(b.Own(), e); err != nil {
			t.Error(err)
		}
	}
	b.forwards(t, station+" dev p0 master br static", station+" dev vx dst 10.0.0.1 self permanent")
}

// TestFDBEvents: of one that was set all is told: that it is made, that its station speaks
// at another port, that it is learnt only, and that it goes, also by itself. Of what was
// never set nothing is told.
func TestFDBEvents(t *testing.T) {
	for _, c := range []struct {
		act     string
		deleted bool
	}{
		{"bridge fdb replace " + station + " dev p1 master static", false},
		{"bridge fdb replace " + station + " dev p0 master dynamic", true},
		{"bridge fdb del " + station + " dev p0 master", true},
		{"bridge fdb flush dev p0 master static", true},
		{"ip link set p0 nomaster", true},
		{"ip link del p0", true},
		{"ip link del dev br", true},
		{"bridge fdb replace " + other + " dev vx dst 10.0.0.9 self permanent", false},
		{"bridge fdb replace " + other + " dev vx dst 10.0.0.1 self dynamic", true},
		{"bridge fdb del " + other + " dev vx self", true},
		{"ip link del vx", true},
	} {
		b := newSwitched(t)
		w := watch(t, b.bench)
		set := []kernel.FDBEntry{b.at(b.p0, station), b.to(other, "10.0.0.1")}
		for _, e := range set {
			if err := b.AddFDBEntry(b.Own(), e); err != nil {
				t.Fatal(err)
			}
			w.until(t, "it is made", func(ev kernel.Event) bool { return ev.FDB != nil && *ev.FDB == e && !ev.Deleted })
		}
		w = watch(t, b.bench)
		b.bridge(t, "fdb add 02:00:00:00:00:07 dev p1 master dynamic")
		b.own.Run(t, strings.Fields(c.act)...)
		w.until(t, c.act, func(ev kernel.Event) bool {
			if ev.FDB == nil {
				return false
			}
			if ev.FDB.MAC == "02:00:00:00:00:07" {
				t.Errorf("told of what is learnt: %v", *ev.FDB)
			}
			return ev.Deleted == c.deleted && (ev.FDB.MAC == station || ev.FDB.MAC == other)
		})
	}
}

// TestFDBRoams: the kernel moves also a static entry, and tells of it. This is not in the
// manual.
func TestFDBRoams(t *testing.T) {
	b := newSwitched(t)
	if err := b.AddFDBEntry(b.Own(), b.at(b.p0, station)); err != nil {
		t.Fatal(err)
	}
	w := watch(t, b.bench)
	b.own.IP(t, "link set q1 down")
	b.own.IP(t, "link set q1 address "+station+" up") // it looks for its neighbors
	w.until(t, "it speaks", func(ev kernel.Event) bool { return ev.FDB != nil && *ev.FDB == b.at(b.p1, station) && !ev.Deleted })
	b.forwards(t, station+" dev p1 master br static")
	if there, err := b.FDBEntry(b.Own(), b.at(b.p0, station)); err != nil || there != b.at(b.p1, station) {
		t.Errorf("%v %v", there, err)
	}
}

// TestFDBOfVLANs: an entry without a VLAN is one of each VLAN of the port. It is not half
// made where somebody has set one in a VLAN.
func TestFDBOfVLANs(t *testing.T) {
	b := newSwitched(t)
	e := b.at(b.p0, station)
	e.VLAN = 10
	if err := b.AddFDBEntry(b.Own(), e); err == nil {
		t.Error("an entry of a VLAN that the port does not have was taken")
	}
	b.forwards(t)
	if _, err := b.own.Try("ip", "link", "set", "br", "type", "bridge", "vlan_filtering", "1"); err != nil {
		return // this kernel has bridges without VLANs
	}
	b.bridge(t, "vlan add dev p0 vid 10")
	if err := b.AddFDBEntry(b.Own(), e); err != nil {
		t.Fatal(err)
	}
	if got, err := b.FDBEntry(b.Own(), e); err != nil || got != e {
		t.Errorf("%v %v", got, err)
	}
	if err := b.AddFDBEntry(b.Own(), b.at(b.p0, station)); !errors.Is(err, kernel.ErrExist) {
		t.Error(err)
	}
	b.forwards(t, station+" dev p0 vlan 10 master br static")
	if err := b.DeleteFDBEntry(b.Own(), e); err != nil {
		t.Error(err)
	}
	b.forwards(t)
}

func TestFDBRefused(t *testing.T) {
	b := newSwitched(t)
	for _, e := range []kernel.FDBEntry{
		{Table: b.br, Port: b.p0},
		{Port: b.p0, MAC: station},
		{Table: b.br, Port: 9999, MAC: station},
		{Table: b.br, Port: b.p0, MAC: station, VLAN: 4095},
		{Table: b.vx, MAC: station},
		{Table: b.vx, MAC: station, Address: addr("::ffff:10.0.0.1")},
		{Table: b.vx, MAC: station, Address: addr("fd00::1")},
	} {
		if err := b.AddFDBEntry(b.Own(), e); err == nil {
			t.Errorf("%v was taken", e)
		}
	}
	b.forwards(t)
}
