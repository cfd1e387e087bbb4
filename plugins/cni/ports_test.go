package cni_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// withPorts is a configuration whose container is to be reached at ports of the host.
func withPorts(config string, mappings ...string) string {
	return strings.Replace(config, "{", `{"runtimeConfig":{"portMappings":[`+strings.Join(mappings, ",")+`]},`, 1)
}

func mapping(host, container int, more string) string {
	return fmt.Sprintf(`{"hostPort":%d,"containerPort":%d%s}`, host, container, more)
}

// TestPorts: a port leads to one container, also over a start; what containers
// with ports share goes with the last of them, and what is shared by all stays.
func TestPorts(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		const shared = "sysctl/cni:blue:localnet"
		add := func(container, config string) *spec.Error {
			return n.call(t.Context(), "ADD", container, "/run/netns/7", config).Error
		}
		add("c0", blue)
		alone := n.show()
		if wrong := add("c1", withPorts(blue, mapping(80, 8080, ""))); wrong != nil {
			t.Fatal(wrong)
		}
		n.restart()
		for _, clash := range []string{mapping(80, 1, ""), mapping(80, 1, `,"hostIP":"192.0.2.1"`), mapping(81, 1, "") + "," + mapping(80, 1, `,"hostIP":"0.0.0.0"`)} {
			if wrong := add("c2", withPorts(blue, clash)); wrong == nil || wrong.Code != spec.TryLater || wrong.Details != "tcp port 80 leads to blue/c1/eth0" {
				t.Errorf("%s: %v", clash, wrong)
			}
		}
		if wrong := add("c2", withPorts(blue, mapping(80, 80, `,"protocol":"udp"`), mapping(443, 443, `,"hostIP":"192.0.2.1"`))); wrong != nil {
			t.Error(wrong)
		}
		if wrong := add("c3", withPorts(blue, mapping(443, 443, `,"hostIP":"192.0.2.2"`))); wrong != nil {
			t.Error(wrong)
		}
		for _, container := range []string{"c1", "c3"} {
			n.call(t.Context(), "DEL", container, "", blue)
			if !strings.Contains(n.show(), shared) {
				t.Errorf("with c2 there, %s has gone:\n%s", shared, n.show())
			}
		}
		if wrong := add("c1", withPorts(blue, mapping(80, 8080, ""))); wrong != nil {
			t.Errorf("a port that is free again: %v", wrong)
		}
		n.call(t.Context(), "DEL", "c1", "", blue)
		n.call(t.Context(), "DEL", "c2", "", blue)
		if n.show() != alone {
			t.Errorf("left\n%s\nwant\n%s", n.show(), alone)
		}
	})
}

// TestRefusedPorts: a port of a process of the host stays that process's; a port that is mapped
// twice and an address of a family that the container lacks are refused before anything is made.
func TestRefusedPorts(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		n.host.listens = map[string]string{"tcp [::]:80": "process 7 (nginx)", "udp 192.0.2.1:53": "process 8 (dnsmasq)"}
		for ports, want := range map[string]string{
			mapping(80, 8080, ""): "it is in use: tcp port 80 of the host is in use by process 7 (nginx) (code 11)",
			mapping(53, 53, `,"protocol":"udp","hostIP":"192.0.2.1"`):                                 "it is in use: udp port 53 of 192.0.2.1 of the host is in use by process 8 (dnsmasq) (code 11)",
			mapping(81, 1, `,"hostIP":"2001:db8::1"`):                                                 "invalid network configuration: runtimeConfig.portMappings[0].hostIP: the container has no address of the family of 2001:db8::1 (code 7)",
			mapping(81, 1, `,"hostIP":"::"`):                                                          "invalid network configuration: runtimeConfig.portMappings[0].hostIP: the container has no address of the family of :: (code 7)",
			mapping(81, 1, "") + "," + mapping(82, 1, "") + "," + mapping(81, 2, ""):                  "invalid network configuration: runtimeConfig.portMappings[2]: tcp port 81 is mapped by portMappings[0] already (code 7)",
			mapping(81, 1, "") + "," + mapping(81, 1, `,"hostIP":"192.0.2.1"`):                        "invalid network configuration: runtimeConfig.portMappings[1]: tcp port 81 of 192.0.2.1 is mapped by portMappings[0] already (code 7)",
			mapping(81, 1, "") + "," + mapping(81, 1, `,"protocol":"udp"`):                            "",
			mapping(53, 53, `,"hostIP":"192.0.2.1"`) + "," + mapping(53, 53, `,"hostIP":"192.0.2.2"`): "",
		} {
			wrong := n.call(t.Context(), "ADD", "c1", "/run/netns/7", withPorts(blue, ports)).Error
			got := ""
			if wrong != nil {
				got = wrong.Error()
			}
			if got != want || want != "" && n.show() != "" {
				t.Errorf("%s: %s\nwant %s\n%s", ports, got, want, n.show())
			}
			n.call(t.Context(), "DEL", "c1", "", blue)
		}
	})
}

// TestKernel_Ports: a port of the host leads to the container from beyond the host,
// from the host by each of its addresses, and from a neighbour; in both families. With
// the container it is gone.
func TestKernel_Ports(t *testing.T) {
	for _, mode := range []string{"bridge", "routed"} {
		t.Run(mode, func(t *testing.T) {
			m := newMachine(t)
			up := m.upstream()
			m.own.IP(t, "link set lo up")
			// Where packets of a bridge pass the tables too, more is put right than elsewhere.
			_, _ = m.own.Try("sh", "-c", "for f in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do echo 0 >$f; done")
			up.IP(t, "route add 10.62.0.0/24 via 192.0.2.1") // no use of it is made to reach the port
			up.IP(t, "route add fd62::/64 via 2001:db8::1")
			config := `{"cniVersion":"1.1.0","name":"blue","mode":"` + mode + `","pool":["10.62.0.0/24","fd62::/64"]}`
			served, neighbour := withIPv6(t), withIPv6(t)
			ported := withPorts(config, mapping(8080, 80, ""), mapping(9090, 80, `,"hostIP":"192.0.2.1"`))
			m.add("c0", served, ported)
			m.add("c1", neighbour, config)
			listenIn(t, served)
			reach := func(from *netlinktest.Namespace, what string, want bool, places ...string) {
				t.Helper()
				patience := map[bool]string{true: "60", false: "2"}[want]
				for _, place := range places {
					out, _ := from.Try("sh", "-c", "busybox nc -w "+patience+" "+place+" </dev/null")
					if got := strings.Contains(out, "served"); got != want {
						t.Errorf("%s, at %s: reached is %v, want %v: %s", what, place, got, want, out)
					}
				}
			}
			reach(up, "from beyond", true, "192.0.2.1 8080", "2001:db8::1 8080", "192.0.2.1 9090")
			reach(m.own, "from the host", true, "192.0.2.1 8080", "127.0.0.1 8080", "10.62.0.1 8080", "2001:db8::1 8080", "192.0.2.1 9090")
			reach(m.own, "from the host", false, "127.0.0.1 9090")
			reach(neighbour, "from a neighbour", true, "10.62.0.1 8080", "fd62::1 8080", "192.0.2.1 8080")
			reach(served, "from itself", true, "192.0.2.1 8080", "2001:db8::1 8080")
			// What the host has at 127.0.0.1 stays its own, also for who sends there.
			listenIn(t, m.own)
			neighbour.Sysctl(t, "ipv4/conf/eth0/route_localnet", "1")
			neighbour.IP(t, "route add 127.0.0.0/8 via 10.62.0.1 dev eth0 onlink")
			reach(m.own, "from the host", true, "127.0.0.1 80")
			reach(neighbour, "from a neighbour", false, "127.0.0.1 80")
			if a := m.call("CHECK", "c0", served, ported); a.Error != nil {
				t.Error(a.Error)
			}
			for container, at := range map[string]*netlinktest.Namespace{"c0": served, "c1": neighbour} {
				if a := m.call("DEL", container, at, config); a.Error != nil || len(a.Warnings) > 0 {
					t.Errorf("%+v", a)
				}
			}
			if rules := m.own.Run(t, "nft", "list ruleset"); rules != "" {
				t.Errorf("left:\n%s", rules)
			}
		})
	}
}

// listenIn answers at port 80 of a namespace, in both families.
func listenIn(t *testing.T, at *netlinktest.Namespace) {
	t.Helper()
	server := exec.Command("nsenter", "--net="+at.Path, "--", "busybox", "nc", "-ll", "-p", "80", "-e", "echo", "served")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	netlinktest.Eventually(t, "somebody listens at port 80", func() bool {
		return strings.Contains(at.Run(t, "cat", "/proc/net/tcp6"), ":0050 ")
	})
}
