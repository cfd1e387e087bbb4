package e2e

import (
	"strings"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestFirewall: where a firewall such as Docker's cuts the bridge of a network, the ADD
// says so, and so do status and cni. With forward the containers reach each other, also when
// somebody has emptied the chain; the last DEL leaves the firewall as it was.
func TestFirewall(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	c1 := h.Mount("c1")
	h.Mount("c2")
	h.Own.Sysctl(t, "bridge/bridge-nf-call-iptables", "1")
	for _, rule := range []string{"-P FORWARD DROP", "-N DOCKER-USER", "-A FORWARD -j DOCKER-USER", "-A FORWARD -i docker0 -j ACCEPT", "-A DOCKER-USER -j RETURN"} {
		h.Own.Run(t, append([]string{"iptables-nft"}, strings.Fields(rule)...)...)
	}
	firewall := func() string { return h.Own.Run(t, "iptables-nft", "-S") }
	before := firewall()
	h.Start()
	add(t, h, "c1", blue)
	r := call(h, "ADD", "c2", blue)
	const cut = "containers of this network do not reach each other: Docker's firewall, FORWARD of iptables-nft"
	if r.Code != 0 || !strings.Contains(r.Err, cut) {
		t.Errorf("ADD: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if err := ping(c1, "10.62.0.3"); err == nil {
		t.Error("the firewall lets pass what it should not")
	}
	for _, command := range []string{"status", "cni"} {
		if out := h.MustCtl(command, "-o", "json"); !strings.Contains(out, cut) {
			t.Errorf("%s:\n%s", command, out)
		}
	}
	for _, c := range []string{"c1", "c2"} {
		call(h, "DEL", c, blue)
	}
	if out := h.MustCtl("status", "-o", "json"); strings.Contains(out, cut) {
		t.Errorf("status of a network that is gone:\n%s", out)
	}
	forward := strings.Replace(blue, "{", `{"forward":true,`, 1)
	add(t, h, "c1", forward)
	if r := call(h, "ADD", "c2", forward); r.Code != 0 || r.Err != "" {
		t.Errorf("ADD: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if err := ping(c1, "10.62.0.3"); err != nil {
		t.Errorf("%v\n%s", err, firewall())
	}
	h.Own.Run(t, "iptables-nft", "-F", "DOCKER-USER")
	h.Eventually("it is let pass again", func() error { return ping(c1, "10.62.0.3") })
	for _, c := range []string{"c1", "c2"} {
		call(h, "DEL", c, forward)
	}
	if got := firewall(); got != strings.Replace(before, "-A DOCKER-USER -j RETURN\n", "", 1) { // which we have flushed
		t.Errorf("left\n%s\nof\n%s", got, before)
	}
}
