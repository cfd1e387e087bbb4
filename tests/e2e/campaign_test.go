package e2e

import (
	"flag"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// anyDeletions lets everything go at once, as these tests want it.
var anyDeletions = []string{"--policy", "* deletions=off"}

// stores are the etcds that the campaigns are played with: one that dies with the agent, and
// one that does not.
var stores = []string{"embedded", "external"}

// storeURL starts what a host needs for one of the stores.
func storeURL(t *testing.T, name string) string {
	t.Helper()
	if name == "embedded" {
		return ""
	}
	return etcdtest.Start(t).URL()
}

// The campaigns draw what they do from a seed, which they print. It is always
// the same unless asked otherwise, so that a change that has nothing to do with
// it is not held up by what a new seed finds.
var seed = flag.Uint64("seed", 6, "what the campaigns draw from; 0 for a new one")

func draw(t *testing.T) *rand.Rand {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("to see the same again: -seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, 0))
}

// intent is what should be, by key.
type intent map[string]string

func (in intent) keys() []string { return slices.Sorted(maps.Keys(in)) }

// ops write all of it in one transaction.
func (in intent) ops(s *store) (ops []clientv3.Op) {
	for _, k := range in.keys() {
		ops = append(ops, s.op(k, in[k]))
	}
	return ops
}

// office is the network of the campaigns: two containers and a named namespace
// on a bridge, that is part of a tunnel, and a bit of everything else.
//
//	web ─ web-br ┐
//	db ── db-br ─┼ br0 ─ vx          own namespace: br0, vx, tap0
//	blue ─ blue-br ┘                 netns blue: blue, lo, mv (on br0)
//
// In blue the MTU leaves no room for IPv6, so that nobody has to wait for its
// addresses to be found unique.
var office = intent{
	"netns/blue":        `{}`,
	"interface/br0":     `{"bridge":{"ageing_time":120},"mac_address":"02:00:00:00:00:fe","mtu":1450,"addresses":["10.50.0.254/24","fd50::fe/64"]}`,
	"interface/web":     `{"namespace":{"microservice":"web"},"host_name":"eth1","mac_address":"02:00:00:00:00:01","mtu":1450,"addresses":["10.50.0.1/24","fd50::1/64"],"veth":{"peer":"web-br"}}`,
	"interface/web-br":  `{"master":"br0","mac_address":"02:00:00:00:01:01","mtu":1450,"veth":{"peer":"web"}}`,
	"interface/db":      `{"namespace":{"microservice":"db"},"host_name":"eth1","mac_address":"02:00:00:00:00:02","mtu":1450,"addresses":["10.50.0.2/24"],"veth":{"peer":"db-br"}}`,
	"interface/db-br":   `{"master":"br0","mac_address":"02:00:00:00:01:02","mtu":1450,"veth":{"peer":"db"}}`,
	"interface/blue":    `{"namespace":{"netns":"blue"},"host_name":"eth0","mac_address":"02:00:00:00:00:03","mtu":1200,"addresses":["10.50.0.3/24"],"veth":{"peer":"blue-br"}}`,
	"interface/blue-br": `{"master":"br0","mac_address":"02:00:00:00:01:03","mtu":1450,"veth":{"peer":"blue"}}`,
	"interface/blue-lo": `{"namespace":{"netns":"blue"},"loopback":{},"addresses":["10.255.0.1/32"]}`,
	"interface/vx":      `{"vxlan":{"vni":42,"local":"10.50.0.254","remote":"192.0.2.9"},"master":"br0","mac_address":"02:00:00:00:02:01","mtu":1450}`,
	"interface/mv":      `{"namespace":{"netns":"blue"},"macvlan":{"parent":"br0","mode":"private"},"mac_address":"02:00:00:00:02:02","mtu":1200,"addresses":["10.52.0.1/24"]}`,
	"interface/tap0":    `{"tap":{},"mac_address":"02:00:00:00:02:03","mtu":1500,"addresses":["10.53.0.1/24"]}`,
	"route/web":         `{"interface":"web","destination":"default","gateway":"10.50.0.254"}`,
	"route/db":          `{"interface":"db","destination":"10.60.0.0/16","gateway":"10.50.0.1","metric":10}`,
	"route/blue":        `{"interface":"blue","destination":"default","gateway":"10.50.0.254","source":"10.255.0.1"}`,
	"route/blue-hole":   `{"namespace":{"netns":"blue"},"type":"blackhole","destination":"10.99.0.0/16"}`,
	"route/own":         `{"interface":"br0","destination":"10.61.0.0/16","gateway":"10.50.0.1","table":77}`,
	"route/shared":      `{"nexthop":"group","destination":"10.62.0.0/16"}`,
	"address/extra":     `{"interface":"vx","address":"10.54.0.1/24"}`,
	"neighbor/blue":     `{"interface":"blue","address":"10.50.0.200","mac_address":"02:00:00:00:03:01"}`,
	"rule/blue":         `{"namespace":{"netns":"blue"},"priority":1000,"from":"192.0.2.0/24","table":77}`,
	"nexthop/blue":      `{"id":10,"interface":"blue","gateway":"10.50.0.254"}`,
	"nexthop/hole":      `{"id":11,"namespace":{"netns":"blue"},"blackhole":true,"family":"ipv4"}`,
	"nexthop/group":     `{"id":12,"namespace":{"netns":"blue"},"group":[{"nexthop":"blue","weight":3}]}`,
	"fdb/vx":            `{"interface":"vx","mac_address":"02:00:00:00:03:02","address":"192.0.2.10"}`,
	"qdisc/vx":          `{"interface":"vx","tbf":{"rate":100000}}`,
	"mirror/br0":        `{"interface":"br0","to":"tap0","direction":"both"}`,
	"sysctl/web":        `{"namespace":{"microservice":"web"},"key":"net.ipv4.ip_default_ttl","value":"63"}`,
	"sysctl/own":        `{"interface":"tap0","key":"net.ipv4.conf.IFNAME.arp_notify","value":"1"}`,
	"forward/br0":       `{"interface":"br0"}`,
	"proxy/web":         `{"listen":{"namespace":{"netns":"blue"},"address":"0.0.0.0:8080"},"forward":{"namespace":{"microservice":"web"},"address":"127.0.0.1:80"}}`,
	"proxy/own":         `{"listen":{"protocol":"udp","address":"127.0.0.1:5353"},"forward":{"namespace":{"netns":"blue"},"address":"10.255.0.1:53"}}`,
	"nftables/blue":     `{"namespace":{"netns":"blue"},"chains":[{"name":"in","type":"filter","hook":"input","rules":["ip saddr 192.0.2.0/24 drop"]}]}`,
	"nftables/own":      `{"family":"ip","table":"office","chains":[{"name":"out","type":"filter","hook":"output","rules":["ip daddr 192.0.2.9 jump tunnel"]},{"name":"tunnel","rules":["udp dport {4789} counter accept"]}]}`,
}

// detours are values that the keys have on the way: other ones, that make the
// object anew or change it in place, and such that are no good.
var detours = map[string][]string{
	"netns/blue":        {`{"x":1}`, `[]`},
	"interface/br0":     {`{"bridge":{"no_multicast_snooping":true},"mtu":1300,"addresses":["10.50.0.253/24","10.50.0.254/24"]}`, `{"bridge":{},"addresses":["10.50.0.254/33"]}`, `{"tap":{},"host_name":"br0"}`},
	"interface/web":     {`{"namespace":{"microservice":"web"},"host_name":"eth7","veth":{"peer":"web-br"}}`, `{"namespace":{"microservice":"nobody"},"veth":{"peer":"web-br"}}`, `{"namespace":{"microservice":"db"},"host_name":"eth9","veth":{"peer":"web-br"}}`},
	"interface/web-br":  {`{"veth":{"peer":"db"}}`, `{"master":"nobody","veth":{"peer":"web"}}`, `{"veth":{}}`},
	"interface/db":      {`{"namespace":{"microservice":"db"},"host_name":"eth1","addresses":["10.50.0.1/24","10.50.0.2/24"],"veth":{"peer":"db-br"}}`, `{`},
	"interface/db-br":   {`{"host_name":"db-other","enabled":false,"master":"br0","veth":{"peer":"db"}}`, `{"tap":{}}`},
	"interface/blue":    {`{"namespace":{"netns":"blue"},"host_name":"eth0","mtu":1100,"veth":{"peer":"blue-br"}}`, `{"veth":{"peer":"blue-br"}}`},
	"interface/blue-br": {`{"host_name":"a-name-that-is-too-long","veth":{"peer":"blue"}}`, `{"master":"br0","mac_address":"02:00:00:00:01:99","veth":{"peer":"blue"}}`},
	"interface/blue-lo": {`{"namespace":{"netns":"blue"},"loopback":{},"addresses":["10.255.0.2/32"]}`, `{"namespace":{"netns":"blue"},"loopback":{},"enabled":false}`},
	"interface/vx":      {`{"vxlan":{"vni":43,"local":"10.50.0.254"},"mtu":1400}`, `{"vxlan":{"vni":0}}`},
	"interface/mv":      {`{"namespace":{"netns":"blue"},"macvlan":{"parent":"br0","mode":"bridge"},"addresses":["10.52.0.1/24","10.52.0.2/24"]}`, `{"macvlan":{"parent":"br0"},"mtu":1100}`},
	"interface/tap0":    {`{"tap":{"owner":7},"addresses":["10.53.0.2/24"]}`, `{"tap":{"owner":"me"}}`, `{"vxlan":{"vni":99}}`},
	"route/web":         {`{"interface":"web","destination":"default","gateway":"10.50.0.254","metric":100}`, `{"interface":"web","destination":"default","gateway":"10.77.0.1"}`, `{"interface":"none","destination":"default","gateway":"10.50.0.254"}`},
	"route/db":          {`{"interface":"db","destination":"10.60.0.0/16","gateway":"10.50.0.3","metric":10}`, `null`},
	"route/blue":        {`{"interface":"blue","destination":"default","gateway":"10.50.0.2"}`, `{"destination":"default"}`},
	"route/blue-hole":   {`{"namespace":{"netns":"blue"},"type":"unreachable","destination":"10.99.0.0/16"}`, ``},
	"route/own":         {`{"interface":"br0","destination":"10.61.0.0/16","gateway":"10.50.0.2","table":77}`, `{"interface":"br0","destination":"10.61.0.0/16","table":78}`},
	"route/shared":      {`{"nexthop":"blue","destination":"10.62.0.0/16"}`, `{"nexthop":"nobody","destination":"10.62.0.0/16"}`, `{"nexthop":"group","interface":"blue","destination":"10.62.0.0/16"}`},
	"address/extra":     {`{"interface":"tap0","address":"10.54.0.1/24"}`, `{"interface":"vx","address":"10.54.0.1"}`},
	"neighbor/blue":     {`{"interface":"blue","address":"10.50.0.200","mac_address":"02:00:00:00:03:09"}`, `{"interface":"mv","address":"10.50.0.201","mac_address":"02:00:00:00:03:01"}`, `{"interface":"blue","address":"10.50.0.200/24"}`},
	"rule/blue":         {`{"interface":"blue"}`, `{"namespace":{"netns":"blue"},"priority":1000,"from":"192.0.2.0/24","action":"prohibit"}`, `{"priority":1001,"family":"ipv4","iif":"br0","from":"192.0.2.0/24","table":77}`},
	"nexthop/blue":      {`{"id":10,"interface":"blue","gateway":"10.50.0.2"}`, `{"id":13,"interface":"br0","gateway":"10.50.0.1"}`, `{"id":0}`},
	"nexthop/hole":      {`{"id":11,"interface":"blue","gateway":"10.50.0.2"}`, `{"id":11,"namespace":{"netns":"blue"},"group":[{"nexthop":"blue"}]}`, `{"id":11}`},
	"nexthop/group":     {`{"id":12,"namespace":{"netns":"blue"},"group":[{"nexthop":"blue"}]}`, `{"id":14,"namespace":{"netns":"blue"},"blackhole":true,"family":"ipv6"}`, `{"id":12,"group":[{}]}`},
	"fdb/vx":            {`{"interface":"vx","mac_address":"02:00:00:00:03:02","address":"192.0.2.11"}`, `{"interface":"web-br","mac_address":"02:00:00:00:03:02"}`, `{"interface":"vx"}`},
	"qdisc/vx":          {`{"interface":"vx","tbf":{"rate":50000,"burst":9000,"limit":99000}}`, `{"interface":"br0","tbf":{"rate":100000}}`, `{"interface":"vx","tbf":{"rate":1}}`},
	"mirror/br0":        {`{"interface":"br0","to":"vx"}`, `{"interface":"tap0","to":"br0","direction":"egress"}`, `{"interface":"blue","to":"br0"}`, `{"interface":"br0","to":"br0"}`},
	"sysctl/web":        {`{"namespace":{"microservice":"web"},"key":"net.ipv4.ip_default_ttl","value":"62"}`, `{"namespace":{"microservice":"db"},"key":"net.ipv4.tcp_retries2","value":"9"}`, `{"key":"kernel.hostname","value":"web"}`},
	"sysctl/own":        {`{"interface":"br0","key":"net.ipv4.conf.IFNAME.arp_notify","value":"1"}`, `{"interface":"tap0","key":"net.ipv4.conf.IFNAME.no_such","value":"1"}`},
	"forward/br0":       {`{"interface":"vx"}`, `{"interface":""}`, `{"interface":"web"}`},
	"proxy/web":         {`{"listen":{"namespace":{"netns":"blue"},"address":"0.0.0.0:8080"},"forward":{"namespace":{"microservice":"web"},"address":"127.0.0.1:81"},"max_sessions":9}`, `{"listen":{"address":"0.0.0.0:8080"},"forward":{"namespace":{"microservice":"db"},"address":"@web"}}`, `{"listen":{"address":"web:80"}}`},
	"proxy/own":         {`{"listen":{"protocol":"udp","address":"127.0.0.1:5353"},"forward":{"namespace":{"netns":"blue"},"address":"10.255.0.1:54"},"idle_timeout":5}`, `{"listen":{"protocol":"udp","address":"127.0.0.2:5353"},"forward":{"address":"192.0.2.1:53"}}`},
	"nftables/blue":     {`{"namespace":{"netns":"blue"},"table":"other","chains":[{"name":"in"}]}`, `{"namespace":{"netns":"blue"},"chains":[{"name":"in","rules":["ip sadr 192.0.2.0/24 drop"]}]}`},
	"nftables/own":      {`{"family":"ip","table":"office","chains":[{"name":"tunnel","rules":["accept","drop"]}]}`, `{"family":"ip","table":"office","chains":[{"name":"out","rules":["jump nowhere"]}]}`},
}

// thieves are keys that come and go and want what belongs to others.
var thieves = intent{
	"interface/a-thief": `{"tap":{},"host_name":"tap0"}`,
	"interface/z-thief": `{"tap":{},"host_name":"vx"}`,
	"route/a-thief":     `{"interface":"br0","destination":"10.61.0.0/16","gateway":"10.50.0.3","table":77}`,
	"address/z-thief":   `{"interface":"tap0","address":"10.53.0.1/24"}`,
	"proxy/z-thief":     `{"listen":{"protocol":"udp","address":"127.0.0.1:5353"},"forward":{"address":"192.0.2.1:53"}}`,
	"nftables/z-thief":  `{"family":"ip","table":"office"}`,
}

// awaitIntent waits until all of it is configured and there is nothing else.
func awaitIntent(h *host.Host, want intent) {
	h.AwaitConfigured(want.keys()...)
	h.AwaitSettled()
}

// awaitGone waits until nothing of it is there.
func awaitGone(t *testing.T, h *host.Host, was intent) {
	t.Helper()
	r := h.Ctl(append([]string{"wait", "--for", "gone", "--timeout", host.Patience.String()}, was.keys()...)...)
	if r.Code != 0 {
		t.Fatalf("not gone within %v:\n%s%s", host.Patience, r.Out, r.Err)
	}
	if left := h.Marked(); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}

// quiet reads until the kernel is through with what it does by itself: links
// find out whether they have carrier.
func quiet(h *host.Host, read func() string) (now string) {
	h.Eventually("the kernel is quiet", func() error {
		before := read()
		<-time.After(300 * time.Millisecond)
		now = read()
		return same(before, now)
	})
	return now
}

// ipv6 makes a container that has it; without a network the engine switches it off.
var ipv6 = []string{
	"--sysctl", "net.ipv6.conf.all.disable_ipv6=0", "--sysctl", "net.ipv6.conf.default.disable_ipv6=0",
	"--sysctl", "net.ipv6.conf.all.accept_dad=0", "--sysctl", "net.ipv6.conf.default.accept_dad=0",
}

// view is the picture without what differs from host to host.
func view(h *host.Host) string {
	return atBirth.ReplaceAllString(ourProtocol.ReplaceAllString(h.Picture(), `"protocol":"ours"`), "")
}

var (
	// ourProtocol is a number that every label has of its own.
	ourProtocol = regexp.MustCompile(`"protocol":"2[0-4][0-9]"`)
	// atBirth is what a macvlan takes over from the bridge below when it is
	// made, and the bridge from the ports it has then; nobody can set it.
	atBirth = regexp.MustCompile(`"tso_max_size":[0-9]+,`)
)
