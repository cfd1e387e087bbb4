package cni

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// offices are the ippools that an operator wrote.
var offices = map[string]*models.IPPool{
	"office": {Network: "10.9.0.0/24", Gateway: "10.9.0.1"},
	"single": {Network: "10.9.0.0/24", ClaimLength: 32},
}

// TestWants reads testdata/wants: a configuration, and what an ADD of the
// container c1 wants by it.
func TestWants(t *testing.T) {
	datadriven.RunTest(t, "testdata/wants", func(t *testing.T, d *datadriven.TestData) string {
		c, wrong := Parse(wire.Request{Protocol: 1, Config: []byte(d.Input),
			Args: spec.Args{Command: "ADD", ContainerID: "c1", IfName: "eth0", Netns: "/run/netns/7"}})
		if wrong != nil {
			return wrong.Error() + "\n"
		}
		n, wrong := network.New(c.Network, offices, c.IPAM)
		if wrong != nil {
			return wrong.Error() + "\n"
		}
		wants, wrong := attach(n, c)
		if wrong != nil {
			return wrong.Error() + "\n"
		}
		var b strings.Builder
		for _, w := range append(n.Shared, wants...) {
			fmt.Fprintf(&b, "%s %s\n", w.Key, models.Encode(w.Value))
		}
		return b.String()
	})
}

// TestKeys reads testdata/keys: a configuration, and the key for which it is refused.
func TestKeys(t *testing.T) {
	datadriven.RunTest(t, "testdata/keys", func(_ *testing.T, d *datadriven.TestData) string {
		if wrong := network.CheckKeys([]byte(d.Input)); wrong != nil {
			return wrong.Error() + "\n"
		}
		return "accepted\n"
	})
}
