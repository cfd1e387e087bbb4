package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// repairGoal is how soon what somebody breaks is right again. A loaded machine
// may take longer; repairLimit is where the test fails.
const (
	repairGoal  = time.Second
	repairLimit = 3 * time.Second
)

// damages are what somebody does to a cable: its end eth in the container, the
// other end x on the host.
var damages = []struct{ what, where, command string }{
	{"a veth is deleted in a container", "container web", "link del ETH"},
	{"a veth is deleted on the host", "own", "link del X"},
	{"the addresses are flushed", "container web", "addr flush dev ETH"},
	{"an address is deleted", "container web", "addr del 10.N.0.1/24 dev ETH"},
	{"a secondary address is deleted", "container web", "addr del 10.N.0.11/24 dev ETH"},
	{"an address is added", "container web", "addr add 10.N.0.77/24 dev ETH"},
	{"a route is deleted", "container web", "route del 10.1N.0.0/16"},
	{"the route to a network is deleted", "container web", "route del 10.N.0.0/24 dev ETH"},
	{"the routes of a link are flushed", "container web", "route flush dev ETH"},
	{"the metric of an address is changed", "container web", "addr change 10.N.0.1/24 dev ETH metric 7"},
	{"a link is set down in a container", "container web", "link set ETH down"},
	{"a link is set down on the host", "own", "link set X down"},
	{"the MTU is changed", "container web", "link set ETH mtu 1300"},
	{"the MAC is changed", "container web", "link set ETH address 02:00:00:00:00:99"},
	{"a port is taken out of the bridge", "own", "link set X nomaster"},
	{"a link is renamed on the host", "own", "link set X name other"},
	{"a link is renamed in a container", "container web", "link set ETH name other"},
	// One for all.
	{"the routes of a container are flushed", "container web", "route flush table main"},
	{"an address of the loopback is deleted", "container web", "addr del 192.0.2.1/32 dev lo"},
	{"an address of the bridge is deleted", "own", "addr del 10.10.0.254/24 dev bridge0"},
	{"a blackhole is deleted", "own", "route del blackhole 192.168.0.0/16"},
	{"a macvlan is deleted", "netns blue", "link del eth0"},
	{"the bridge is set down", "own", "link set bridge0 down"},
	{"the bridge is deleted", "own", "link del bridge0"},
}

// repairIntent has a cable with addresses and a route for each damage: the
// repairs of one key are slowed down after the third in a minute.
func repairIntent() (intent []struct{ key, value string }) {
	add := func(key, format string, args ...any) {
		intent = append(intent, struct{ key, value string }{key, fmt.Sprintf(format, args...)})
	}
	add("netns/blue", `{}`)
	add("interface/bridge0", `{"addresses":["10.10.0.254/24"],"bridge":{},"mtu":1400}`)
	add("interface/blue-mac", `{"namespace":{"netns":"blue"},"host_name":"eth0","macvlan":{"parent":"bridge0"}}`)
	add("interface/web-lo", `{"namespace":{"microservice":"web"},"addresses":["192.0.2.1/32"],"loopback":{}}`)
	add("route/hole", `{"destination":"192.168.0.0/16","type":"blackhole"}`)
	for i := range damages {
		n := i + 10
		add(fmt.Sprint("interface/w", n), `{"namespace":{"microservice":"web"},"host_name":"eth%d","mtu":1400,"mac_address":"02:00:00:00:00:%d",`+
			`"addresses":["10.%d.0.1/24","10.%[1]d.0.11/24"],"veth":{"peer":"x%[1]d"}}`, n, n, n)
		add(fmt.Sprint("interface/x", n), `{"master":"bridge0","mtu":1400,"veth":{"peer":"w%d"}}`, n)
		add(fmt.Sprint("route/w", n), `{"interface":"w%d","destination":"10.1%[1]d.0.0/16","gateway":"10.%[1]d.0.254"}`, n)
	}
	return intent
}

// TestRepair breaks, piece by piece, what the agent has made; each is right
// again without a resync.
func TestRepair(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, Fast: true})
	h.Start()
	h.Run("web")
	intent := repairIntent()
	for _, x := range intent {
		h.Put(x.key, x.value)
	}
	all := keysOf(intent)
	h.AwaitConfigured(all...)
	places := h.Places()
	before := shape(t, places)
	for i, c := range damages {
		t.Run(c.what, func(t *testing.T) {
			h := h.With(t)
			n := fmt.Sprint(i + 10)
			command := strings.NewReplacer("ETH", "eth"+n, "X", "x"+n, "N", n).Replace(c.command)
			writes := h.KernelWrites()
			places[c.where].IP(t, command)
			took := h.Within(repairLimit, "it is right again", func() error {
				if now := shape(t, places); now != before {
					return errors.New("it differs:\n" + host.Diff(before, now))
				}
				return nil
			})
			h.AwaitConfigured(all...)
			if h.KernelWrites() == writes {
				t.Error("the agent did not do it")
			}
			t.Log(took.Round(time.Millisecond))
			if took > repairGoal {
				t.Logf("slower than the goal of %v:\n%s", repairGoal, h.Done())
			}
		})
	}
	h.Eventually("the container reaches the bridge", func() error { return h.Ping("web", "10.10.0.254") })
	ends(t, h, "repair-end", t.TempDir())
	// Every repair came of an event.
	if done := h.Done(); strings.Contains(done, "resync") {
		t.Errorf("there was a resync:\n%s", done)
	}
}

// shape is what counts of some namespaces: names, masters, MTUs, given MACs,
// addresses and routes of IPv4, marks.
func shape(t *testing.T, places map[string]*netlinktest.Namespace) string {
	var lines []string
	for name, ns := range places {
		for _, l := range host.Show(t, ns, "addr show") {
			mac := l["address"]
			if text, _ := mac.(string); !strings.HasPrefix(text, "02:00:") {
				mac = ""
			}
			var addrs []string
			for _, a := range l["addr_info"].([]any) {
				a := a.(map[string]any)
				if a["family"] != "inet" {
					continue
				}
				addrs = append(addrs, fmt.Sprint(a["local"], "/", a["prefixlen"]))
			}
			slices.Sort(addrs)
			lines = append(lines, fmt.Sprint(name, " ", l["ifname"], slices.Contains(l["flags"].([]any), any("UP")), l["mtu"], l["master"], mac, l["ifalias"], addrs))
		}
		for _, r := range host.Show(t, ns, "-4 route show") {
			lines = append(lines, fmt.Sprint(name, " ", r["type"], r["dst"], r["gateway"], r["dev"], r["protocol"], r["metric"]))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
