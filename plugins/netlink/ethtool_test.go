package netlink_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// shownFeatures is what ethtool(8) shows; where it has a name of its own for a feature that
// is another.
func shownFeatures(t *testing.T, n *netlinktest.Namespace, link string) map[string]kernel.Feature {
	t.Helper()
	var all []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(n.Run(t, "ethtool", "--json", "-k", link)), &all); err != nil || len(all) != 1 {
		t.Fatal(err, len(all))
	}
	features := map[string]kernel.Feature{}
	for name, text := range all[0] {
		var f struct{ Active, Fixed, Requested *bool }
		if json.Unmarshal(text, &f) == nil && f.Fixed != nil {
			features[name] = kernel.Feature{On: *f.Active, Requested: *f.Requested, Fixed: *f.Fixed}
		}
	}
	return features
}

func TestFeatures(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, n := b.open(t)
	for _, spec := range []kernel.LinkSpec{
		{Name: "v0", Veth: &kernel.VethSpec{PeerName: "v1"}}, {Name: "br0", Bridge: &kernel.BridgeSpec{}}, {Name: "t0", Tuntap: &kernel.TuntapSpec{}},
	} {
		l := b.add(t, ns, spec)
		got, err := b.Features(ns, l.Index)
		if err != nil {
			t.Fatal(err)
		}
		known := 0
		for name, want := range shownFeatures(t, n, l.Name) {
			have, there := got[name]
			if !there {
				continue
			}
			known++
			// A feature that is off for good counts as fixed whoever forbids it.
			if have.On != want.On || have.Fixed != want.Fixed || !have.Fixed && have.Requested != want.Requested {
				t.Errorf("%s: %s is %+v, ethtool shows %+v", l.Name, name, have, want)
			}
		}
		if known < 30 {
			t.Errorf("%s: only %d features are known to both", l.Name, known)
		}
	}

	l, err := b.Link(ns, "v0")
	if err != nil {
		t.Fatal(err)
	}
	before := b.Writes()
	if err := b.SetFeatures(ns, l.Index, map[string]bool{"rx-gro": true, "tx-tcp-segmentation": false}); err != nil {
		t.Fatal(err)
	}
	if b.Writes() != before+1 {
		t.Errorf("%d writes, want one", b.Writes()-before)
	}
	shown := shownFeatures(t, n, "v0")
	if shown["tx-tcp-segmentation"].On || !shown["tx-tcp6-segmentation"].On {
		t.Errorf("tx-tcp-segmentation is %+v, tx-tcp6-segmentation %+v", shown["tx-tcp-segmentation"], shown["tx-tcp6-segmentation"])
	}
	if got, err := b.Features(ns, l.Index); err != nil || !got["rx-gro"].On || got["tx-tcp-segmentation"].On {
		t.Errorf("read back rx-gro %+v, tx-tcp-segmentation %+v, %v", got["rx-gro"], got["tx-tcp-segmentation"], err)
	}
	if err := b.SetFeatures(ns, l.Index, map[string]bool{"rx-groo": true}); err == nil {
		t.Error("a feature that nobody knows was changed")
	}
	if _, err := b.Features(ns, 4711); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("no link: %v", err)
	}
}

// TestFeaturesAreTold: whoever switches one, it is an event of the link.
func TestFeaturesAreTold(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, n := b.open(t)
	l := b.add(t, ns, kernel.LinkSpec{Name: "v0", Veth: &kernel.VethSpec{PeerName: "v1"}})
	events := watch(t, b)
	n.Run(t, "ethtool", "-K", "v0", "tx-tcp-segmentation", "off")
	events.until(t, "the event of the link", func(e kernel.Event) bool { return e.Link != nil && e.Link.Index == l.Index && !e.Deleted })
}

// Links of software have no rings.
func TestNoRings(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l := b.add(t, b.Own(), kernel.LinkSpec{Name: "v0", Veth: &kernel.VethSpec{PeerName: "v1"}})
	if r, err := b.Rings(b.Own(), l.Index); !errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("%+v, %v", r, err)
	}
	if err := b.SetRings(b.Own(), l.Index, 256, 0); !errors.Is(err, kernel.ErrUnsupported) {
		t.Error(err)
	}
}

// host runs a command outside the namespaces of the test.
func host(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

// TestRings: the machines of tests/kernels have a network card that nobody else uses.
func TestRings(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	if os.Getenv("PLUMB_KERNEL") == "" {
		return
	}
	host(t, "modprobe", "vmxnet3")
	t.Cleanup(func() { host(t, "modprobe", "-r", "vmxnet3") })
	host(t, "ip", "link", "set", "eth0", "netns", b.own.Path)
	l, err := b.Link(b.Own(), "eth0")
	if err != nil {
		t.Fatal(err)
	}
	shown := func() (r kernel.Rings) {
		fields := map[string][]*uint32{"RX:": {&r.MaxRX, &r.RX}, "TX:": {&r.MaxTX, &r.TX}}
		for line := range strings.Lines(b.own.Run(t, "ethtool", "-g", "eth0")) {
			name, number, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if to := fields[name]; len(to) > 0 {
				fmt.Sscan(number, to[0])
				fields[name] = to[1:]
			}
		}
		return r
	}
	before := shown()
	if got, err := b.Rings(b.Own(), l.Index); err != nil || got != before || got.RX == 0 {
		t.Errorf("read %+v, %v, ethtool shows %+v", got, err, before)
	}
	for _, up := range []string{"down", "up"} {
		b.own.IP(t, "link set eth0 "+up)
		for _, want := range []kernel.Rings{{RX: 1024}, {TX: 256}, {RX: before.RX, TX: before.TX}} {
			if err := b.SetRings(b.Own(), l.Index, want.RX, want.TX); err != nil {
				t.Fatal(err)
			}
			if got := shown(); want.RX != 0 && got.RX != want.RX || want.TX != 0 && got.TX != want.TX {
				t.Errorf("%s: set %+v, ethtool shows %+v", up, want, got)
			}
		}
	}
	if shown() != before {
		t.Errorf("was %+v, is %+v", before, shown())
	}
	if err := b.SetRings(b.Own(), l.Index, before.MaxRX+1, 0); err == nil {
		t.Error("more than there can be was taken")
	}
}
