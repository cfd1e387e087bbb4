package models_test

import (
	"fmt"
	"testing"

	"github.com/plumb-net/plumb/models"
)

// TestEffective: what a field means when it is not set.
func TestEffective(t *testing.T) {
	off := false
	ns := &models.Namespace{In: &models.Namespace_Path{Path: "/run/netns/x"}}
	loopback := &models.Interface{Link: &models.Interface_Loopback{Loopback: &models.Loopback{}}}
	vlan := &models.Interface{Link: &models.Interface_Vlan{Vlan: &models.Vlan{Parent: "up"}}}
	v4 := &models.Route{Interface: "a", Destination: "10.0.0.0/8"}
	v6 := &models.Route{Interface: "a", Destination: "default", Gateway: "fd00::1", Scope: "link"}
	hops := &models.Route{Destination: "default", Nexthops: []*models.NextHop{{Interface: "a"}, {Interface: "b", Gateway: "10.0.0.1"}}}
	prefix := func(r *models.Route) any {
		p, err := r.Prefix()
		if err != nil {
			return err
		}
		return p
	}
	for _, c := range []struct {
		what string
		got  any
		want string
	}{
		{"host name", (&models.Interface{}).EffectiveHostName("interface/web"), "web"},
		{"host name given", (&models.Interface{HostName: "eth0"}).EffectiveHostName("interface/web"), "eth0"},
		{"host name of a loopback", loopback.EffectiveHostName("interface/web"), "lo"},
		{"enabled", (&models.Interface{}).IsEnabled(), "true"},
		{"disabled", (&models.Interface{Enabled: &off}).IsEnabled(), "false"},
		{"link type", vlan.LinkType(), "vlan"},
		{"no link type", (&models.Interface{}).LinkType(), ""},
		{"parent", vlan.Parent(), "up"},
		{"no parent", loopback.Parent(), ""},
		{"vlan protocol", vlan.GetVlan().EffectiveProtocol(), "802.1q"},
		{"vxlan port", (&models.Vxlan{}).EffectivePort(), "4789"},
		{"macvlan mode", (&models.Macvlan{}).EffectiveMode(), "bridge"},
		{"ipvlan mode", (&models.Ipvlan{Mode: "l3"}).EffectiveMode(), "l3"},
		{"table", v4.EffectiveTable(), "254"},
		{"type", v4.EffectiveType(), "unicast"},
		{"IPv4 metric", v4.EffectiveMetric(), "0"},
		{"IPv6 metric", v6.EffectiveMetric(), "1024"},
		{"scope without gateway", v4.EffectiveScope(), "link"},
		{"scope in IPv6", v6.EffectiveScope(), "global"},
		{"scope with next hops", hops.EffectiveScope(), "global"},
		{"scope of a blackhole", (&models.Route{Destination: "10.0.0.0/8", Type: "blackhole"}).EffectiveScope(), "global"},
		{"prefix", prefix(v4), "10.0.0.0/8"},
		{"default by gateway", prefix(v6), "::/0"},
		{"default by next hop", prefix(hops), "0.0.0.0/0"},
		{"default of no family", prefix(&models.Route{Destination: "default"}), "destination: default of which family? Write 0.0.0.0/0 or ::/0, or give a gateway or source"},
		{"interfaces", hops.Interfaces(), "[a b]"},
		{"interface", v4.Interfaces(), "[a]"},
		{"weight", hops.Nexthops[0].EffectiveWeight(), "1"},
		{"address scope", (&models.Address{}).EffectiveScope(), "global"},
		{"preferred", (&models.Address{ValidLifetime: 60}).EffectivePreferredLifetime(), "60"},
		{"namespace", ns.Text(), "path /run/netns/x"},
		{"namespace key", ns.Key(), "namespace/path:%2Frun%2Fnetns%2Fx"},
		{"own namespace", (*models.Namespace)(nil).Text(), "the agent's own namespace"},
		{"own namespace's key", (*models.Namespace)(nil).Key(), ""},
		{"pid", (&models.Namespace{In: &models.Namespace_Pid{Pid: 7}}).Text(), "pid 7"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
}
