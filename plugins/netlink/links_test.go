package netlink_test

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

func ref[T any](v T) *T { return &v }

// basics are what every type of link is born with here.
func basics(name string, master int) kernel.LinkSpec {
	return kernel.LinkSpec{
		Name: name, Alias: "plumb:test:interface/" + name, Group: 4711, MTU: 1400,
		MAC: "02:00:00:00:00:01", Up: true, Master: master,
	}
}

// checkBasics compares what ip shows with what basics asked for.
func checkBasics(t *testing.T, shown map[string]any, master, mac string) {
	t.Helper()
	if shown == nil {
		t.Fatal("ip does not show the link")
	}
	name := shown["ifname"].(string)
	want := map[string]any{
		"ifalias": "plumb:test:interface/" + name, "group": "4711", "mtu": 1400.0,
		"address": nil, "master": nil,
	}
	if mac != "" { // a tun has none
		want["address"] = mac
	}
	if master != "" {
		want["master"] = master
	}
	for key, v := range want {
		if !reflect.DeepEqual(shown[key], v) {
			t.Errorf("%s: %s is %v, want %v", name, key, shown[key], v)
		}
	}
	if !strings.Contains(fmt.Sprint(shown["flags"]), "UP") {
		t.Errorf("%s is not up: %v", name, shown["flags"])
	}
}

// info is the type and the settings of a link that ip shows.
func info(shown map[string]any) (kind string, data map[string]any) {
	li, _ := shown["linkinfo"].(map[string]any)
	kind, _ = li["info_kind"].(string)
	data, _ = li["info_data"].(map[string]any)
	return kind, data
}

// Every type that the development kernel has, with all that a link can be born
// with, in the own namespace and in another.
func TestAddLink(t *testing.T) {
	local := netip.MustParseAddr("10.0.0.1")
	cases := []struct {
		name    string
		spec    func(s *kernel.LinkSpec, below kernel.NS, parent int)
		kind    string
		data    map[string]any
		enslave bool
		same    func(got kernel.Link, below kernel.NS, parent int) bool
	}{
		{name: "veth", kind: "veth", enslave: true, spec: func(s *kernel.LinkSpec, below kernel.NS, _ int) {
			s.Veth = &kernel.VethSpec{PeerNS: below, PeerName: "peer0"}
		}},
		{name: "bridge", kind: "bridge",
			data: map[string]any{"ageing_time": 6000.0, "stp_state": 1.0, "mcast_snooping": 0.0},
			spec: func(s *kernel.LinkSpec, _ kernel.NS, _ int) {
				s.Bridge = &kernel.BridgeSpec{STP: ref(true), AgeingSeconds: ref(uint32(60)), MulticastSnooping: ref(false)}
			},
			same: func(got kernel.Link, _ kernel.NS, _ int) bool {
				return *got.Bridge.STP && *got.Bridge.AgeingSeconds == 60 && !*got.Bridge.MulticastSnooping
			}},
		{name: "vxlan", kind: "vxlan", enslave: true,
			data: map[string]any{"id": 42.0, "local": "10.0.0.1", "group": "239.1.1.1", "port": 4789.0, "learning": false},
			spec: func(s *kernel.LinkSpec, below kernel.NS, parent int) {
				s.Vxlan = &kernel.VxlanSpec{VNI: 42, Local: local, Remote: netip.MustParseAddr("239.1.1.1"), Port: 4789, Parent: parent, ParentNS: below}
			},
			same: func(got kernel.Link, below kernel.NS, parent int) bool {
				return reflect.DeepEqual(got.Vxlan, &kernel.VxlanSpec{VNI: 42, Local: local,
					Remote: netip.MustParseAddr("239.1.1.1"), Port: 4789, Parent: parent, ParentNS: below})
			}},
		{name: "vxlan6", kind: "vxlan", data: map[string]any{"id": 43.0, "remote6": "fd00::2", "learning": true},
			spec: func(s *kernel.LinkSpec, _ kernel.NS, _ int) {
				s.Vxlan = &kernel.VxlanSpec{VNI: 43, Remote: netip.MustParseAddr("fd00::2"), Learning: true}
			}},
		{name: "macvlan", kind: "macvlan", data: map[string]any{"mode": "bridge"},
			spec: func(s *kernel.LinkSpec, below kernel.NS, parent int) {
				s.Macvlan = &kernel.MacvlanSpec{ParentNS: below, Parent: parent, Mode: "bridge"}
			},
			same: func(got kernel.Link, below kernel.NS, parent int) bool {
				return *got.Macvlan == kernel.MacvlanSpec{ParentNS: below, Parent: parent, Mode: "bridge"}
			}},
		{name: "tap", kind: "tun", enslave: true, data: map[string]any{"type": "tap", "persist": true, "user": 54321.0, "vnet_hdr": true},
			spec: func(s *kernel.LinkSpec, _ kernel.NS, _ int) {
				s.Tuntap = &kernel.TuntapSpec{Owner: ref(uint32(54321)), VnetHdr: true}
			},
			same: func(got kernel.Link, _ kernel.NS, _ int) bool {
				return reflect.DeepEqual(got.Tuntap, &kernel.TuntapSpec{Owner: ref(uint32(54321)), VnetHdr: true})
			}},
		{name: "tun", kind: "tun", data: map[string]any{"type": "tun", "multi_queue": true},
			spec: func(s *kernel.LinkSpec, _ kernel.NS, _ int) {
				s.MAC = ""
				s.Tuntap = &kernel.TuntapSpec{Tun: true, MultiQueue: true, Group: ref(uint32(7))}
			},
			same: func(got kernel.Link, _ kernel.NS, _ int) bool {
				return reflect.DeepEqual(got.Tuntap, &kernel.TuntapSpec{Tun: true, MultiQueue: true, Group: ref(uint32(7))})
			}},
	}
	for _, c := range cases {
		for _, where := range []string{"own", "other"} {
			t.Run(c.name+"/"+where, func(t *testing.T) {
				b := newKernel(t, netlink.Options{})
				ns, n := b.Own(), b.own
				if where == "other" {
					ns, n = b.open(t)
				}
				// The parent, or the peer, always lives in the own namespace.
				parent := b.add(t, b.Own(), kernel.LinkSpec{Name: "below", MTU: 9000, Up: true, Veth: &kernel.VethSpec{PeerName: "below-p"}})
				master, bridge := 0, ""
				if c.enslave {
					bridge = "br0"
					master = b.add(t, ns, kernel.LinkSpec{Name: bridge, Bridge: &kernel.BridgeSpec{}}).Index
				}
				spec := basics(c.name+"0", master)
				c.spec(&spec, b.Own(), parent.Index)
				got := b.add(t, ns, spec)

				shown := n.Show(t, spec.Name)
				checkBasics(t, shown, bridge, spec.MAC)
				kind, data := info(shown)
				if kind != c.kind || got.Type != c.kind {
					t.Errorf("type is %q, returned %q, want %q", kind, got.Type, c.kind)
				}
				for key, v := range c.data {
					if !reflect.DeepEqual(data[key], v) {
						t.Errorf("%s is %v, want %v", key, data[key], v)
					}
				}
				if c.same != nil && !c.same(got, b.Own(), parent.Index) {
					t.Errorf("returned %+v", got)
				}
				read, err := b.Link(ns, spec.Name)
				portless := read
				got.Port, portless.Port = nil, nil // nobody may have looked at that yet
				if err != nil || !reflect.DeepEqual(portless, got) {
					t.Errorf("read back %+v\nreturned  %+v, %v", read, got, err)
				}
				all, err := b.Links(ns)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range all {
					if l.Index == got.Index && !reflect.DeepEqual(l, read) {
						t.Errorf("listed as %+v\nfound as  %+v", l, read)
					}
				}
				if _, err := b.AddLink(ns, spec); !errors.Is(err, kernel.ErrExist) {
					t.Errorf("again: %v", err)
				}
			})
		}
	}
}

// Both ends have one queue for sending, wherever they are: to take others out of use takes the
// kernel a while.
func TestVethHasOneQueue(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, far := b.open(t)
	b.add(t, b.Own(), kernel.LinkSpec{Name: "near", Veth: &kernel.VethSpec{PeerNS: ns, PeerName: "far"}})
	for _, l := range append(b.own.JSON(t, "link show near"), far.JSON(t, "link show far")...) {
		if l["num_tx_queues"] != 1.0 {
			t.Errorf("%v has %v queues", l["ifname"], l["num_tx_queues"])
		}
	}
}

func TestVethPeerIsBornElsewhere(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, n := b.open(t)
	spec := basics("web", 0)
	spec.Veth = &kernel.VethSpec{PeerNS: ns, PeerName: "eth0", PeerMTU: 1300, PeerMAC: "02:00:00:00:00:02",
		PeerGroup: 4712, PeerUp: true, PeerAlias: "plumb:test:interface/eth0"}
	l := b.add(t, b.Own(), spec)
	peer, err := b.Link(ns, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	if l.Parent != peer.Index || l.ParentNS != ns || peer.Parent != l.Index || peer.ParentNS != b.Own() {
		t.Errorf("ends do not name each other: %+v and %+v", l, peer)
	}
	want := kernel.Link{NS: ns, Index: peer.Index, Name: "eth0", Type: "veth", Alias: "plumb:test:interface/eth0", Group: 4712,
		Up: true, MTU: 1300, MAC: "02:00:00:00:00:02", Parent: l.Index, ParentNS: b.Own(), Accepts: peer.Accepts}
	if !reflect.DeepEqual(peer, want) {
		t.Errorf("peer is %+v\nwant    %+v", peer, want)
	}
	shown := n.Show(t, "eth0")
	if shown["mtu"] != 1300.0 || shown["group"] != "4712" || shown["ifalias"] != want.Alias {
		t.Errorf("ip shows %v", shown)
	}
}

// TestRunning: packets pass a cable when both ends are up, and the kernel has
// noticed.
func TestRunning(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, n := b.open(t)
	spec := basics("web", 0)
	spec.Up, spec.Veth = true, &kernel.VethSpec{PeerNS: ns, PeerName: "eth0", PeerGroup: 4712}
	l := b.add(t, b.Own(), spec)
	netlinktest.Eventually(t, "the kernel sees that the other end is down", func() bool {
		running, err := b.Running(l.Ref())
		return !running && err == nil
	})
	n.IP(t, "link set eth0 up")
	netlinktest.Eventually(t, "it runs", func() bool {
		running, err := b.Running(l.Ref())
		return running && err == nil
	})
	n.IP(t, "link del eth0")
	if running, err := b.Running(l.Ref()); running || err == nil {
		t.Errorf("it is gone: %v, %v", running, err)
	}
}

// A name that is taken, at either end, leaves everything as it was.
func TestNameTaken(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, n := b.open(t)
	b.add(t, ns, kernel.LinkSpec{Name: "eth0", Bridge: &kernel.BridgeSpec{}})
	b.add(t, b.Own(), kernel.LinkSpec{Name: "web", Bridge: &kernel.BridgeSpec{}})
	for _, names := range [][2]string{{"web", "new"}, {"new", "eth0"}} {
		_, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: names[0], Veth: &kernel.VethSpec{PeerNS: ns, PeerName: names[1]}})
		if !errors.Is(err, kernel.ErrExist) {
			t.Errorf("%v: %v", names, err)
		}
		if peers := strings.Contains(err.Error(), "peer"); peers != (names[1] == "eth0") {
			t.Errorf("whose name is taken? %v", err)
		}
	}
	if _, err := b.AddLink(ns, kernel.LinkSpec{Name: "eth0", Tuntap: &kernel.TuntapSpec{}}); !errors.Is(err, kernel.ErrExist) {
		t.Errorf("tap: %v", err)
	}
	if here, there := b.own.Names(t), n.Names(t); !reflect.DeepEqual(here, []string{"web"}) || !reflect.DeepEqual(there, []string{"eth0"}) {
		t.Errorf("left %v and %v", here, there)
	}
}

// The name of a child is its own namespace's business: the parent's may have
// one of the same name.
func TestChildNamedAsALinkOfTheParentsNamespace(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, n := b.open(t)
	parent := b.add(t, b.Own(), kernel.LinkSpec{Name: "eth0", Up: true, Veth: &kernel.VethSpec{PeerName: "p"}})
	l := b.add(t, ns, kernel.LinkSpec{Name: "eth0", Up: true, Alias: "plumb:x", Macvlan: &kernel.MacvlanSpec{ParentNS: b.Own(), Parent: parent.Index, Mode: "private"}})
	if l.Name != "eth0" || l.Macvlan.Parent != parent.Index || l.Macvlan.ParentNS != b.Own() {
		t.Errorf("made %+v", l)
	}
	if shown := n.Show(t, "eth0"); shown["ifalias"] != "plumb:x" {
		t.Errorf("ip shows %v", shown)
	}
	if _, err := b.AddLink(ns, kernel.LinkSpec{Name: "eth0", Macvlan: &kernel.MacvlanSpec{ParentNS: b.Own(), Parent: parent.Index}}); !errors.Is(err, kernel.ErrExist) {
		t.Errorf("again: %v", err)
	}
}

// Types that this kernel lacks say what to do; those that it has are made.
func TestUnsupportedTypes(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	parent := b.add(t, b.Own(), kernel.LinkSpec{Name: "below", Veth: &kernel.VethSpec{PeerName: "p"}})
	for kind, spec := range map[string]kernel.LinkSpec{
		"dummy": {Name: "x0", Plain: "dummy"},
		"vrf":   {Name: "x1", Vrf: &kernel.VrfSpec{Table: 9}},
		"vlan":  {Name: "x2", Vlan: &kernel.VlanSpec{Parent: parent.Index, ID: 5, Protocol: "802.1Q"}},
	} {
		_, err := b.AddLink(b.Own(), spec)
		if err == nil {
			if k, _ := info(b.own.Show(t, spec.Name)); k != kind {
				t.Errorf("%s: made a %s", kind, k)
			}
			continue
		}
		if !errors.Is(err, kernel.ErrUnsupported) || !strings.Contains(err.Error(), `type "`+kind+`"`) || !strings.Contains(err.Error(), "modprobe") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestBadSpecs(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	before := b.Writes()
	for _, spec := range []kernel.LinkSpec{
		{Name: "", Bridge: &kernel.BridgeSpec{}},
		{Name: "a-name-that-is-too-long", Bridge: &kernel.BridgeSpec{}},
		{Name: "x"},
		{Name: "x%d", Bridge: &kernel.BridgeSpec{}},
		{Name: "x", Plain: "dummy", Bridge: &kernel.BridgeSpec{}},
		{Name: "x", MAC: "nonsense", Bridge: &kernel.BridgeSpec{}},
		{Name: "x", Macvlan: &kernel.MacvlanSpec{Mode: "nonsense"}},
		{Name: "x", Veth: &kernel.VethSpec{}},
	} {
		if _, err := b.AddLink(b.Own(), spec); err == nil {
			t.Errorf("%+v was made", spec)
		}
	}
	if b.Writes() != before {
		t.Error("the kernel was asked nevertheless")
	}
}

// A link whose birth cannot be finished does not stay.
func TestHalfMadeLinksAreRemoved(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	alias := strings.Repeat("x", 256) // one more than the kernel takes
	for _, spec := range []kernel.LinkSpec{
		{Name: "br0", Alias: alias, Bridge: &kernel.BridgeSpec{}},
		{Name: "v0", Veth: &kernel.VethSpec{PeerName: "v1", PeerAlias: alias}},
		{Name: "tap0", Alias: alias, Tuntap: &kernel.TuntapSpec{}},
		{Name: "tap1", Master: 99, Tuntap: &kernel.TuntapSpec{}},
		{Name: "br1", Master: 99, Bridge: &kernel.BridgeSpec{}},
	} {
		if _, err := b.AddLink(b.Own(), spec); err == nil {
			t.Errorf("%s was made", spec.Name)
		}
	}
	if left := b.own.Names(t); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// A tun or tap device has a carrier while a process has it open. Its creation must not look like one: IPv6 would
// give it an address.
func TestNewTuntapHasNoCarrier(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	b.own.IPv6(t)
	for _, spec := range []kernel.LinkSpec{
		{Name: "tap0", Up: true, Tuntap: &kernel.TuntapSpec{}},
		{Name: "tun0", Up: true, Tuntap: &kernel.TuntapSpec{Tun: true}},
	} {
		b.add(t, b.Own(), spec)
		time.Sleep(50 * time.Millisecond) // the kernel gives addresses a moment later
		if is := b.own.IP(t, "-6 address show dev "+spec.Name); is != "" {
			t.Errorf("%s has an address:\n%s", spec.Name, is)
		}
	}
}

func TestSetLink(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	br := b.add(t, b.Own(), kernel.LinkSpec{Name: "br0", Bridge: &kernel.BridgeSpec{}})
	l := b.add(t, b.Own(), kernel.LinkSpec{Name: "old", Up: true, Veth: &kernel.VethSpec{PeerName: "p", PeerUp: true}})
	b.own.IP(t, "addr add 10.1.0.1/24 dev old")
	b.own.IP(t, "route add 10.2.0.0/16 via 10.1.0.2")
	err := b.SetLink(b.Own(), l.Index, kernel.LinkPatch{
		Alias: ref("plumb:test:interface/new"), Group: ref(uint32(4711)), Name: ref("new"),
		MAC: ref("02:00:00:00:00:01"), MTU: ref(1400), Master: ref(br.Index),
	})
	if err != nil {
		t.Fatal(err)
	}
	checkBasics(t, b.own.Show(t, "new"), "br0", "02:00:00:00:00:01")
	if got, err := b.Link(b.Own(), "new"); err != nil || !got.Up {
		t.Errorf("renamed while up: %+v, %v", got, err)
	}
	if !strings.Contains(b.own.IP(t, "route"), "10.2.0.0/16") && netlinktest.Linux(t, 6, 2) {
		t.Error("renaming while up lost a route")
	}
	if err := b.SetLink(b.Own(), l.Index, kernel.LinkPatch{Alias: ref(""), Group: ref(uint32(0)), Master: ref(0), Up: ref(false)}); err != nil {
		t.Fatal(err)
	}
	got, err := b.Link(b.Own(), "new")
	if err != nil || got.Alias != "" || got.Group != 0 || got.Master != 0 || got.Up {
		t.Errorf("%+v, %v", got, err)
	}
	if err := b.SetLink(b.Own(), br.Index, kernel.LinkPatch{Bridge: &kernel.BridgeSpec{STP: ref(true), AgeingSeconds: ref(uint32(10))}}); err != nil {
		t.Fatal(err)
	}
	if _, data := info(b.own.Show(t, "br0")); data["stp_state"] != 1.0 || data["ageing_time"] != 1000.0 {
		t.Errorf("bridge is %v", data)
	}
	before := b.Writes()
	if err := b.SetLink(b.Own(), l.Index, kernel.LinkPatch{}); err != nil || b.Writes() != before {
		t.Errorf("an empty patch: %v, %d requests", err, b.Writes()-before)
	}
	for what, err := range map[string]error{
		"taken name": b.SetLink(b.Own(), l.Index, kernel.LinkPatch{Name: ref("br0")}),
		"no link":    b.SetLink(b.Own(), 999, kernel.LinkPatch{Up: ref(true)}),
		"any link":   b.SetLink(b.Own(), 0, kernel.LinkPatch{Up: ref(true)}),
	} {
		want := kernel.ErrNotExist
		if what == "taken name" {
			want = kernel.ErrExist
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLinkNotThere(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	if _, err := b.Link(b.Own(), "nobody"); !errors.Is(err, kernel.ErrNotExist) {
		t.Error(err)
	}
	if _, err := b.LinkByIndex(b.Own(), 999); !errors.Is(err, kernel.ErrNotExist) {
		t.Error(err)
	}
	if err := b.DeleteLink(b.Own(), 999); !errors.Is(err, kernel.ErrNotExist) {
		t.Error(err)
	}
	if err := b.DeleteLink(b.Own(), 0); !errors.Is(err, kernel.ErrNotExist) {
		t.Error(err)
	}
	lo, err := b.Link(b.Own(), "lo")
	if err != nil || lo.Type != "device" || lo.Index != 1 || lo.MAC != "00:00:00:00:00:00" || lo.Parent != 0 {
		t.Errorf("%+v, %v", lo, err)
	}
}

// A peer in a namespace that is not open is a peer in an unknown namespace,
// until it is opened; and again when it is gone.
func TestParentNamespaceBecomesKnown(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	p := netlinktest.Start(t)
	b.own.IP(t, fmt.Sprintf("link add web type veth peer name eth0 netns %d", p.Pid))
	if l, err := b.Link(b.Own(), "web"); err != nil || l.Parent == 0 || l.ParentNS != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	ns, err := b.Open(fmt.Sprintf("/proc/%d/ns/net", p.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if l, err := b.Link(b.Own(), "web"); err != nil || l.ParentNS != ns {
		t.Errorf("%+v, %v", l, err)
	}
}

// Lists are whole, whatever happens while they are read: a dump in which the
// kernel saw changes is read again.
func TestListsWhileThingsChange(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	const n = 100
	for i := range n {
		b.add(t, b.Own(), kernel.LinkSpec{Name: fmt.Sprintf("stay%d", i), Veth: &kernel.VethSpec{PeerName: fmt.Sprintf("peer%d", i)}})
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	var took atomic.Int64 // how long a list takes on this machine: no list ends while changes never pause for that long
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(took.Load())):
			}
			l, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: "come", Bridge: &kernel.BridgeSpec{}})
			if err == nil {
				err = b.DeleteLink(b.Own(), l.Index)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 50 {
		begin := time.Now()
		list, err := b.Links(b.Own())
		took.Store(int64(time.Since(begin)) / 4)
		if err != nil {
			t.Error(err)
		}
		if stay := without(list, func(l kernel.Link) bool { return l.Name == "lo" || l.Name == "come" }); len(stay) != 2*n {
			t.Errorf("%d links", len(stay))
		}
	}
	close(stop)
	<-ended
}

// What a link is called by is set although what it is to do is refused.
func TestMarkedFirst(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, _ := b.open(t)
	l, err := b.AddLink(ns, kernel.LinkSpec{Name: "a", Bridge: &kernel.BridgeSpec{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetLink(ns, l.Index, kernel.LinkPatch{Alias: ref("x"), Group: ref(uint32(7)), Master: ref(999)}); err == nil {
		t.Error("a master that is not there was taken")
	}
	if l, err = b.LinkByIndex(ns, l.Index); err != nil || l.Alias != "x" || l.Group != 7 {
		t.Errorf("%+v, %v", l, err)
	}
}
