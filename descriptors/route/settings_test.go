package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestSettingsOfOthers: others give a route of ours a setting that no value has. That is drift, and an
// update removes the setting.
func TestSettingsOfOthers(t *testing.T) {
	b := newBench(t)
	b.net.IP(t, "address add fd01::1/64 dev a")
	b.must("r", `{"interface":"a","destination":"10.7.0.0/16","gateway":"10.0.0.9","mtu":1300}`)
	b.must("r6", `{"interface":"a","destination":"fd07::/64","gateway":"fd01::9"}`)
	b.same()
	for _, c := range []struct{ name, route string }{
		{"r", "10.7.0.0/16 via 10.0.0.9 dev a mtu lock 1300"},
		{"r", "10.7.0.0/16 via 10.0.0.9 dev a mtu 1300 advmss 900"},
		{"r", "10.7.0.0/16 via 10.0.0.9 dev a mtu 1300 congctl reno"},
		{"r", "10.7.0.0/16 via 10.0.0.9 dev a mtu 1300 realm 7"},
		{"r6", "fd07::/64 via fd01::9 dev a pref low"},
		{"r6", "fd07::/64 via fd01::9 dev a expires 600"},
	} {
		b.net.IP(t, fmt.Sprintf("route replace %s proto %d", c.route, kernel.Protocol(label)))
		k := scheduler.Key("route/" + c.name)
		kn := b.in[k]
		var actual *models.Route
		for f, err := range b.kind.Retrieve(t.Context(), scope{Keys: []scheduler.Key{k}, Known: []known{kn}}) {
			if err != nil {
				t.Fatal(err)
			}
			actual = f.Value
		}
		if verdict := b.kind.Compare(k, actual, kn.Value); verdict.Change != scheduler.InPlace || !strings.Contains(verdict.Reason, "settings") {
			t.Errorf("%s: %v", c.route, verdict)
		}
		if _, err := b.kind.Update(t.Context(), k, actual, kn.Value, kn.Meta); err != nil {
			t.Errorf("%s: %v", c.route, err)
		}
		b.same()
	}
}
