package e2e

import (
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// everything is an intent with all kinds that this kernel has.
var everything = []struct{ key, value string }{
	{"netns/blue", `{}`},
	{"interface/br", `{"bridge":{"ageing_time":60},"mtu":1400,"addresses":["10.5.0.1/24","fd05::1/64"]}`},
	{"interface/web", `{"namespace":{"microservice":"web"},"host_name":"eth1","mac_address":"02:00:00:00:00:01","addresses":["10.5.0.2/24"],"veth":{"peer":"web-x"}}`},
	{"interface/web-x", `{"master":"br","veth":{"peer":"web"}}`},
	{"interface/side", `{"namespace":{"netns":"blue"},"host_name":"eth1","addresses":["10.5.0.3/24"],"veth":{"peer":"side-x"}}`},
	{"interface/side-x", `{"master":"br","veth":{"peer":"side"}}`},
	{"interface/tap", `{"tap":{"owner":4242},"master":"br"}`},
	{"interface/vx", `{"vxlan":{"vni":61,"local":"10.5.0.1","remote":"10.5.0.77"},"master":"br"}`},
	{"interface/vxg", `{"namespace":{"netns":"blue"},"vxlan":{"vni":62,"group":"239.1.1.1","parent":"br"}}`},
	{"interface/mac", `{"namespace":{"netns":"blue"},"host_name":"eth0","addresses":["10.5.0.4/24"],"macvlan":{"parent":"br"}}`},
	{"interface/blue-lo", `{"namespace":{"netns":"blue"},"addresses":["192.0.2.80/32"],"loopback":{}}`},
	{"interface/uplink", `{"mtu":1300,"addresses":["192.0.2.11/24"],"existing":{}}`},
	{"interface/web-dev0", `{"namespace":{"microservice":"web"},"host_name":"dev0","mtu":1200,"existing":{}}`},
	{"route/web", `{"interface":"web","destination":"10.6.0.0/16","gateway":"10.5.0.1","metric":7}`},
	{"route/both", `{"destination":"10.7.0.0/16","nexthops":[{"interface":"br","gateway":"10.5.0.2","weight":3},{"interface":"uplink","gateway":"192.0.2.1"}]}`},
	{"route/six", `{"interface":"br","destination":"fd06::/64","gateway":"fd05::2"}`},
	{"route/hole", `{"destination":"10.0.0.0/8","type":"blackhole","metric":100}`},
	{"address/extra", `{"interface":"br","address":"10.5.1.1/24","label":"br:x"}`},
}

// TestRestartWritesNothing restarts an agent on a correct host, in good order
// and as after a crash: it writes nothing, and the host stays the same to the
// byte.
func TestRestartWritesNothing(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true})
	h.Own.IP(t, "link add uplink type veth peer name far")
	h.Own.IP(t, "link set far up")
	h.Own.IP(t, "link set uplink up")
	h.Start()
	h.Run("web")
	h.In("web").IP(t, "link add dev0 type veth peer name dev1")
	for _, x := range everything {
		h.Put(x.key, x.value)
	}
	all := keysOf(everything)
	h.AwaitConfigured(all...)
	before := h.Exact()
	for _, c := range []struct {
		name string
		stop func(h *host.Host)
	}{
		{"TERM", func(h *host.Host) { t.Logf("it stops in %v", h.Stop()) }},
		{"KILL", (*host.Host).Kill9},
		{"KILL again", (*host.Host).Kill9},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := h.With(t)
			c.stop(h)
			if diff := host.Diff(before, h.Exact()); diff != "" {
				t.Errorf("its end changed the host:\n%s", diff)
			}
			h.Start()
			h.AwaitConfigured(all...)
			h.AwaitSettled()
			if n := h.KernelWrites(); n != 0 {
				t.Errorf("%d kernel writes after the restart:\n%s", n, h.Done())
			}
			h.MustCtl("resync")
			if n := h.KernelWrites(); n != 0 {
				t.Errorf("%d kernel writes after a resync:\n%s", n, h.Done())
			}
			h.AwaitNoDifference()
			if diff := host.Diff(before, h.Exact()); diff != "" {
				t.Errorf("the restart changed the host:\n%s", diff)
			}
		})
	}
	ends(t, h, "restart-end", t.TempDir())
}
