package netlink_test

import (
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// TestPortsForwardAtOnce: when a link with a carrier has joined a bridge, its port forwards, also if
// the peer of the veth has the same index in another namespace. The operational state of such a link
// follows its carrier up to a second after the last change of that state. A bridge that is down is
// not waited for.
func TestPortsForwardAtOnce(t *testing.T) {
	for _, many := range []bool{false, true} {
		b := newKernel(t, netlink.Options{})
		ns, _ := b.open(t)
		cord := b.add(t, b.Own(), kernel.LinkSpec{Name: "cord", Veth: &kernel.VethSpec{PeerNS: ns, PeerName: "eth0", PeerUp: true}})
		if cord.Parent != cord.Index {
			t.Fatalf("the peer has the index %d, want %d", cord.Parent, cord.Index)
		}
		up := b.add(t, b.Own(), kernel.LinkSpec{Name: "br0", Up: true, Bridge: &kernel.BridgeSpec{}})
		down := b.add(t, b.Own(), kernel.LinkSpec{Name: "br1", Bridge: &kernel.BridgeSpec{}})
		netlinktest.Eventually(t, "the state says that there is no carrier", func() bool {
			return b.own.Show(t, "cord")["operstate"] == "DOWN"
		})
		set := func(p kernel.LinkPatch) {
			t.Helper()
			var err error
			if many {
				err = b.SetLinks(b.Own(), []kernel.LinkChange{{Index: cord.Index, Patch: p}})[0]
			} else {
				err = b.SetLink(b.Own(), cord.Index, p)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		set(kernel.LinkPatch{Up: new(true)})
		set(kernel.LinkPatch{Master: &up.Index})
		if out := b.own.Run(t, "bridge", "link", "show", "dev", "cord"); !strings.Contains(out, "state forwarding") {
			t.Errorf("the port does not forward (by SetLinks: %v):\n%s", many, out)
		}
		set(kernel.LinkPatch{Master: &down.Index})
		if out := b.own.Run(t, "bridge", "link", "show", "dev", "cord"); !strings.Contains(out, "state disabled") {
			t.Errorf("the port of a bridge that is down:\n%s", out)
		}
	}
}
