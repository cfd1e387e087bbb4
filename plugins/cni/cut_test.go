package cni_test

import (
	"strings"
	"testing"
)

// TestFirewallCuts: what the firewall of the host stops is told by the ADD that it is told to,
// and of the network as long as it has containers. With forward it is let pass, and goes
// with the last.
func TestFirewallCuts(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		n.host.cut = map[string]string{"br-blue>br-blue": "FORWARD of iptables-nft drops it"}
		a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue)
		if a.Error != nil || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "do not reach each other: FORWARD of iptables-nft drops it") ||
			!strings.Contains(a.Warnings[0], `"forward": true`) {
			t.Errorf("%v", a)
		}
		if !strings.HasPrefix(n.Trouble(), "network blue: ") || n.Cuts()["blue"] == "" {
			t.Errorf("%q", n.Trouble())
		}
		if strings.Contains(n.show(), "forward/") {
			t.Error("nobody wanted that")
		}
		forward := strings.Replace(blue, "{", `{"forward":true,`, 1)
		if a := n.call(t.Context(), "ADD", "c2", "/run/netns/7", forward); a.Error == nil {
			t.Error("a network that has containers is changed")
		}
		n.call(t.Context(), "DEL", "c1", "", blue)
		n.host.cut = nil
		if n.Trouble() != "" {
			t.Errorf("%q", n.Trouble())
		}
		for _, config := range []string{forward, strings.Replace(forward, "{", `{"mode":"routed",`, 1)} {
			if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", config); a.Error != nil || len(a.Warnings) > 0 {
				t.Fatal(a)
			}
			if got := strings.Count(n.show(), "forward/cni:blue"); got != 1 {
				t.Errorf("%d rules\n%s", got, n.show())
			}
			n.restart()
			if got := strings.Count(n.show(), "forward/cni:blue"); got != 1 {
				t.Errorf("%d rules after a restart\n%s", got, n.show())
			}
			n.call(t.Context(), "DEL", "c1", "", forward)
			if n.show() != "" {
				t.Errorf("left\n%s", n.show())
			}
		}
		ported := strings.Replace(blue, "{", `{"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80}]},`, 1)
		for _, n.host.call = range []bool{false, true} {
			const own = "does not reach its own published ports"
			a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", ported)
			if a.Error != nil || n.host.call != (len(a.Warnings) == 1 && strings.Contains(a.Warnings[0], own)) || strings.Contains(n.Trouble(), own) != n.host.call {
				t.Errorf("%v %q", a, n.Trouble())
			}
			n.call(t.Context(), "DEL", "c1", "", ported)
		}
		routed := strings.Replace(blue, "{", `{"mode":"routed",`, 1)
		n.host.cut = map[string]string{"pv7a9ae503637b>": "FORWARD drops it"}
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", routed); len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "beyond this host") {
			t.Errorf("%v", a)
		}
	})
}
