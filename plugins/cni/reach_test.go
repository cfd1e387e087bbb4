package cni_test

import (
	"fmt"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// TestAddIsReachedByNeighbors: a container that gets the address of one that has left is reached
// at the instant of the answer, in both families, by neighbours that remember the MAC of the
// other.
func TestAddIsReachedByNeighbors(t *testing.T) {
	m := newMachine(t)
	config := `{"cniVersion":"1.1.0","name":"blue","mode":"bridge","pool":["10.63.0.0/24","fd63::/64"]}`
	neighbor, first := withIPv6(t), withIPv6(t)
	m.add("neighbor", neighbor, config)
	name := func(i int) string { return fmt.Sprintf("container%d", i) }
	m.add(name(0), first, config)
	neighbor.Sysctl(t, "ipv4/neigh/eth0/base_reachable_time_ms", "3600000")
	neighbor.Sysctl(t, "ipv6/neigh/eth0/base_reachable_time_ms", "3600000")
	at := first
	ping := func(addresses ...string) {
		t.Helper()
		for _, to := range addresses {
			if out, err := neighbor.Try("busybox", "ping", "-c1", "-W2", to); err != nil {
				t.Fatalf("%v\n%s\n%s\n%s", err, out, neighbor.IP(t, "neigh show"), at.IP(t, "addr show dev eth0")+at.IP(t, "route")+m.own.IP(t, "-d link show"))
			}
		}
	}
	ping("10.63.0.3", "fd63::3")
	for i := range 5 { // the MAC of a container comes from its name
		if a := m.call("DEL", name(i), nil, config); a.Error != nil {
			t.Fatal(a.Error)
		}
		at = withIPv6(t)
		m.addAt(name(i+1), at, config, "10.63.0.3/24", "fd63::3/64")
		ping("10.63.0.3", "fd63::3")
	}
}

// addAt adds a container that asks for addresses.
func (m *machine) addAt(container string, at *netlinktest.Namespace, config, four, six string) {
	m.t.Helper()
	config = config[:len(config)-1] + `,"runtimeConfig":{"ips":["` + four + `","` + six + `"]}}`
	m.add(container, at, config)
}
