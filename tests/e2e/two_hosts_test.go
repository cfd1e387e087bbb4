package e2e

import (
	"fmt"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestTwoHosts: two agents, each with a container, and a cable between their hosts. What is in
// a network of the same number on both sides is one network, whatever the names; another one
// is heard by nobody.
func TestTwoHosts(t *testing.T) {
	t.Parallel()
	var hosts []*host.Host
	for range 2 {
		h := host.New(t, host.Options{Parallel: true, Fast: true})
		h.Start()
		h.Run("web")
		hosts = append(hosts, h)
	}
	left, right := hosts[0], hosts[1]
	left.Own.IP(t, "link add far type veth peer name uplink netns "+right.Own.Path)
	left.Own.IP(t, "link set far name uplink")
	network := func(h *host.Host, name string, vni, i int) (intent intent) {
		return map[string]string{
			"interface/vx-" + name: fmt.Sprintf(`{"vxlan":{"vni":%d,"local":"192.0.2.%d","remote":"192.0.2.%d"},"master":"br-%s"}`, vni, i, 3-i, name),
			"interface/br-" + name: `{"bridge":{}}`,
			"interface/x-" + name:  fmt.Sprintf(`{"master":"br-%s","veth":{"peer":"%[1]s"}}`, name),
			"interface/" + name: fmt.Sprintf(`{"namespace":{"microservice":"web"},"mtu":1450,"addresses":["10.%d.0.%d/24"],"veth":{"peer":"x-%s"}}`,
				map[string]int{"red": 1, "blue": 2}[name], i, name),
		}
	}
	write := func(h *host.Host, in intent) {
		t.Helper()
		for _, k := range in.keys() {
			h.Put(k, in[k])
		}
		h.AwaitConfigured(in.keys()...)
	}
	for i, h := range hosts {
		write(h, intent{"interface/uplink": fmt.Sprintf(`{"existing":{},"enabled":true,"addresses":["192.0.2.%d/24"]}`, i+1)})
		write(h, network(h, "red", 10, i+1))
	}
	write(left, network(left, "blue", 20, 1))
	write(right, network(right, "blue", 30, 2))
	reach := func(to string) {
		t.Helper()
		left.Eventually(to+" answers", func() error { return left.Ping("web", to) })
	}
	reach("10.1.0.2")
	if left.Ping("web", "10.2.0.2") == nil {
		t.Error("what has another number was heard")
	}
	write(right, network(right, "blue", 20, 2))
	reach("10.2.0.2")
	reach("10.1.0.2")
	text := ""
	for i, h := range hosts {
		h.AwaitNoDifference()
		s := &script{Host: h, dir: t.TempDir()}
		text += fmt.Sprintf("host %d: %s", i+1, s.clean(h.End()))
	}
	golden(t, "two-hosts", text)
}
