package nexthop_test

import (
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// TestChangedProtocol: a nexthop whose protocol number others have changed stays ours and gets
// it back in place; one that others put in its place is theirs.
func TestChangedProtocol(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBench(t)
		b.must("nexthop/one", `{"id":7,"interface":"a","gateway":"10.0.0.9"}`)
		found := func() (keys []scheduler.Key) {
			for f, err := range b.kind.Retrieve(t.Context(), scope{All: true}) {
				if err != nil {
					t.Error(err)
				}
				keys = append(keys, f.Key)
			}
			return keys
		}
		protocol := func() (p uint8) {
			all, err := b.Nexthops(b.Own())
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			return all[0].Protocol
		}
		b.net.IP(t, "route add 10.9.0.0/16 nhid 7")
		b.net.IP(t, "nexthop replace id 7 via 10.0.0.9 dev a proto static")
		if restart {
			b.restart()
		}
		if keys := found(); len(keys) != 1 || protocol() != kernel.Protocol("host7") {
			t.Errorf("restart %v: found %v, protocol %d", restart, keys, protocol())
		}
		if out := b.net.IP(t, "route show 10.9.0.0/16"); !strings.Contains(out, "nhid 7") {
			t.Errorf("the route through it is %q", out)
		}
		b.net.IP(t, "nexthop replace id 7 via 10.0.0.8 dev a proto static")
		if keys := found(); len(keys) != 0 || protocol() == kernel.Protocol("host7") {
			t.Errorf("restart %v: that of others is taken for ours: %v", restart, keys)
		}
	}
}
