package e2e

import (
	"strings"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestHostNetworks: a network that is the host's, by an address or a route, is not
// given to containers; STATUS says the same. What is attached stays, whatever the host gets
// afterwards, and other networks do not take it.
func TestHostNetworks(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	c1 := h.Mount("c1")
	h.Mount("c2")
	h.Own.Run(t, "ip", "link", "add", "lan0", "up", "type", "bridge")
	h.Own.Run(t, "ip", "address", "add", "10.62.0.7/16", "dev", "lan0")
	h.Own.Run(t, "ip", "route", "add", "10.70.0.0/16", "dev", "lan0", "table", "77")
	h.Start()
	before := h.Exact()
	refused := func(config, code, names string) {
		t.Helper()
		for _, command := range []string{"ADD", "STATUS"} {
			r := call(h, command, "c2", strings.Replace(config, "1.0.0", "1.1.0", 1))
			if command == "STATUS" && code == "11" {
				code = "50"
			}
			if r.Code != 1 || !strings.Contains(r.Out, `"code": `+code) || !strings.Contains(r.Out, names) {
				t.Errorf("%s of %s: exit %d\n%s", command, config, r.Code, r.Out)
			}
		}
	}
	refused(blue, "11", "lan0 of the host has the address 10.62.0.7/16")
	refused(strings.Replace(blue, "10.62", "10.70", 1), "11", "route to 10.70.0.0/16 by lan0")
	refused(strings.Replace(blue, "10.62", "127.1", 1), "7", "127.0.0.0/8")
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("a refused ADD left\n%s", diff)
	}
	h.Own.Run(t, "ip", "link", "del", "lan0")
	a := add(t, h, "c1", blue)
	refused(strings.Replace(blue, "blue", "green", 1), "11", "network blue")
	h.Own.Run(t, "ip", "link", "add", "lan1", "up", "type", "bridge")
	h.Own.Run(t, "ip", "address", "add", "10.62.9.9/16", "dev", "lan1")
	h.Stop()
	h.Start()
	if err := ping(c1, a.IPs[0].Gateway); err != nil {
		t.Error(err)
	}
	add(t, h, "c2", blue)
	refused(strings.Replace(blue, "blue", "green", 1), "11", "network blue")
}
