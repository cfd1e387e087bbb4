package kerneltest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// run does commands, none of which fails.
func run(t testing.TB, k kernel.Kernel, commands string) {
	t.Helper()
	for line := range strings.Lines(commands) {
		if err := kerneltest.IP(k, k.Own(), line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// site is something of everything that the kernels of all hosts have.
const site = `ip link add br0 type bridge
ip link add a type veth peer name b
ip link add vx type vxlan id 7 local 192.0.2.1 dstport 4789 nolearning
ip tuntap add t mode tap
ip link add mv link b type macvlan mode bridge
ip link set lo up
ip link set br0 alias plumb:host7:interface/br0 up
ip link set a mtu 1400 group 7 master br0 up
ip link property add dev a altname uplink
ip link set b up
ip link set vx up
ip addr add 10.0.0.1/24 dev b
ip addr add 10.0.0.2/24 dev b label b:x
ip addr add fd00::1/64 dev b nodad
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev b
bridge fdb add 02:00:00:00:00:08 dev a master static
bridge fdb append 00:00:00:00:00:00 dev vx dst 192.0.2.2
ip nexthop add id 1 via 10.0.0.9 dev b
ip nexthop add id 2 via 10.0.0.8 dev b
ip nexthop add id 3 group 1,2/2,1
ip route add 10.5.0.0/16 dev b table 7 metric 5 proto 4 scope link
ip route add default via 10.0.0.9 dev b proto 4 mtu 1300
ip route add 10.2.0.0/16 nhid 3 proto 4
ip route add blackhole 10.3.0.0/16 proto 4
ip route add 10.6.0.0/16 proto 4 nexthop via 10.0.0.9 dev b weight 1 nexthop via 10.0.0.8 dev b weight 2
ip -6 route add fd01::/64 via fd00::2 dev b proto 4
ip rule add pref 100 from 10.0.0.0/8 fwmark 0x1/0xff iif b table 7
ip -6 rule add pref 100 to fd00::/8 type blackhole
tc qdisc add dev a root handle 1: tbf rate 1mbit burst 4096 latency 400ms
tc qdisc add dev a clsact
tc filter add dev a ingress protocol all u32 match u32 0 0 action mirred egress mirror dev b continue cookie 0a0b
tc filter add dev a ingress protocol all u32 match u32 0 0 action mirred egress mirror dev vx continue
tc filter add dev a egress protocol all u32 match u32 0 0 action mirred egress mirror dev b continue cookie 0a0b
tc qdisc add dev b ingress
`

// rareSite is something of what Debian's kernels have and others may not.
const rareSite = `ip link add bo type bond mode 802.3ad miimon 50 updelay 100 min_links 1 lacp_rate fast xmit_hash_policy layer3+4
ip link add p type veth peer name q
ip link set p master bo
ip link set q up
ip link set bo mtu 1400 up
ip link add red type vrf table 10
ip link add g type gre local 192.0.2.1 remote 192.0.2.2 key 7 csum ttl 9
ip link add gt type gretap external
ip link add i type ipip remote 192.0.2.2 nopmtudisc
ip link add s type sit local 192.0.2.1
ip link add six type ip6gre local 2001:db8::1 remote 2001:db8::2 hoplimit 9
ip link add ge type geneve id 7 remote 192.0.2.2 ttl 3
ip link add gx type geneve external dstport 6082
ip link add wg0 type wireguard
ip link add bo.7 link bo type vlan id 7
ip link add n type ip6tnl remote 2001:db8::2 dev q
ip link set bo.7 master red up
wg set wg0 listen-port 51820 fwmark 7 peer AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= endpoint 192.0.2.1:51820 persistent-keepalive 25 allowed-ips 10.9.0.1/32,fd09::/64
ip link set wg0 up
ip addr add 10.0.0.1 peer 10.0.0.2 dev q
ip addr add fd00::1 peer fd00::2/128 dev q
ip addr add 10.1.0.1/24 dev bo.7
ip route add 10.2.0.0/16 encap mpls 100/200 via 10.0.0.2 dev q proto 4
ip route add 10.3.0.0/16 via 10.1.0.9 dev bo.7 table 10 proto 4
`

// What a kernel prints makes the same on another one, whether that is in memory or is Linux,
// and whether a person pastes it into a shell or IP reads it.
func TestTextMakesTheSame(t *testing.T) {
	t.Run("site", func(t *testing.T) { makesTheSame(t, site, true) })
	t.Run("rare", func(t *testing.T) { makesTheSame(t, rareSite, hosttest.OnDebian()) })
}

func makesTheSame(t *testing.T, site string, onLinux bool) {
	first := kerneltest.New(kerneltest.Options{})
	run(t, first, site)
	want := first.String()

	second := kerneltest.New(kerneltest.Options{})
	run(t, second, want)
	if got := second.String(); got != want {
		t.Errorf("in memory once more:\n%s\nwant\n%s", got, want)
	}
	if !onLinux {
		return
	}

	own := netlinktest.New(t)
	own.Defaults(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("set -e\n"+want), 0o600); err != nil {
		t.Fatal(err)
	}
	own.Run(t, "sh", script)
	k, err := netlink.New(netlink.Options{OwnPath: own.Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if got := shown(t, k, want); got != want {
		t.Errorf("on Linux:\n%s\nwant\n%s", got, want)
	}
}

// Namespaces are printed as well, with the cables between them.
func TestTextOfNamespaces(t *testing.T) {
	const want = `ip netns add blue
ip netns add green
ip link add name a type veth peer name eth0 netns blue
ip -n blue link add name eth1 type veth peer name eth0 netns green
ip -n blue link add name mv link a link-netns 1 type macvlan mode vepa
ip link set dev a up
ip -n blue link set dev eth0 up
# ip addr add fe80::/64 dev a
ip -n blue addr add 10.0.0.1/24 dev eth0
# ip -n blue addr add fe80::/64 dev eth0
# ip -6 route add fe80::/64 dev a metric 256 proto 2
# ip -n blue route add 10.0.0.0/24 dev eth0 proto 2 scope link src 10.0.0.1
# ip -n blue -6 route add fe80::/64 dev eth0 metric 256 proto 2
`
	k := kerneltest.New(kerneltest.Options{})
	run(t, k, want)
	if got := k.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A namespace lives as long as a name or a process leads to it, and is open as long as one by
// which it was opened does.
func TestNamespaces(t *testing.T) {
	k := kerneltest.New(kerneltest.Options{NamedDir: "/run/here"})
	blue, err := k.CreateNamed("blue")
	if err != nil {
		t.Fatal(err)
	}
	if ns, err := k.Open("/run/here/blue"); ns != blue || err != nil {
		t.Errorf("opened %d, %v", ns, err)
	}
	if _, err := k.CreateNamed("blue"); !errors.Is(err, kernel.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	if _, err := k.CreateNamed("a/b"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a bad name: %v", err)
	}
	started := k.Start(4711)
	if k.Alive(started) || !errors.Is(second(k.Links(started)), kernel.ErrNoNamespace) {
		t.Error("what nobody has opened is open")
	}
	if ns, err := k.Open("/proc/4711/ns/net"); ns != started || err != nil {
		t.Errorf("opened %d, %v", ns, err)
	}
	if got, want := k.InUse(), []kernel.NS{k.Own(), blue, started}; !slices.Equal(got, want) {
		t.Errorf("in use are %v, want %v", got, want)
	}
	k.End(4711)
	if err := k.DeleteNamed("blue"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/proc/4711/ns/net", "/run/here/blue"} {
		if _, err := k.Open(path); !errors.Is(err, kernel.ErrNoNamespace) || !errors.Is(err, kernel.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := k.DeleteNamed("blue"); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("deleted twice: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A call can be made to fail: it does nothing then, and those before and after it work.
func TestFail(t *testing.T) {
	k := kerneltest.New(kerneltest.Options{})
	k.Fail("AddAddress", 2, syscall.EBUSY)
	var got []string
	for i := range 3 {
		a := kernel.Address{Index: 1, Prefix: netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/32", i))}
		got = append(got, fmt.Sprint(k.AddAddress(k.Own(), a)))
	}
	all, err := k.Addresses(k.Own(), 0)
	if want := "<nil> add address 10.0.0.1/32 to link 1: device or resource busy <nil>"; strings.Join(got, " ") != want || len(all) != 2 || err != nil {
		t.Errorf("%q, and then there are %v, %v", got, all, err)
	}
	k.Fail("Links", 1, syscall.ENODEV)
	if _, err := k.Links(k.Own()); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("%v is not what the port says", err)
	}
}

// Who is slow loses events and is told so; so is everybody when that is asked for. The
// namespaces that come and go are told in any case.
func TestLostEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kerneltest.New(kerneltest.Options{Queue: 3})
		ctx, cancel := context.WithCancel(t.Context())
		hold := make(chan struct{})
		var told []string
		done := make(chan error)
		go func() {
			done <- k.Watch(ctx, func(ev kernel.Event) {
				<-hold
				told = append(told, fmt.Sprintf("lost=%v named=%s link=%v", ev.Lost, ev.Named, ev.Link != nil))
			})
		}()
		synctest.Wait()
		run(t, k, "ip netns add green\nip link add a type veth peer name b\nip link set a up\nip link set b up\nip -n green link add c type bridge\nip netns add blue")
		close(hold)
		synctest.Wait()
		// green has room of its own.
		want := "lost=false named= link=false, lost=false named=green link=false, lost=false named= link=true, lost=false named= link=true, lost=false named= link=true, lost=true named= link=false, lost=false named= link=true, lost=false named=blue link=false"
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("told %s\nwant %s", got, want)
		}

		hold, told = make(chan struct{}), nil
		run(t, k, "ip link set lo up")
		synctest.Wait()
		run(t, k, "ip link set lo down\nip netns add red")
		k.Overrun(k.Own())
		close(hold)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !slices.Contains(told, "lost=true named= link=false") || !slices.Contains(told, "lost=false named=red link=false") {
			t.Errorf("told %s", told)
		}
	})
}

// What a kernel in memory has not it says.
func TestUnsupported(t *testing.T) {
	k := kerneltest.New(kerneltest.Options{})
	for what, err := range map[string]error{
		"team":  kerneltest.IP(k, k.Own(), "ip link add t type team"),
		"rings": second(k.Rings(k.Own(), 1)),
	} {
		if !errors.Is(err, kernel.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, command := range []string{"ip link frob a", "tc qdisc add", "tc qdisc add dev lo root handle x: tbf", "tc filter add dev lo ingress u32", "ip addr add 10.0.0.1/99 dev lo", "ip route add default via here"} {
		if err := kerneltest.IP(k, k.Own(), command); err == nil {
			t.Errorf("%q was understood", command)
		}
	}
}

// TestWords: what is no word for an object is refused, and does nothing to it.
func TestWords(t *testing.T) {
	k := kerneltest.New(kerneltest.Options{})
	ip := func(command string) error { return kerneltest.IP(k, k.Own(), command) }
	for _, command := range []string{"ip link add br0 type bridge", "ip addr add 10.0.0.1/24 dev br0"} {
		if err := ip(command); err != nil {
			t.Fatal(err)
		}
	}
	if err := ip("ip addr change 10.0.0.1/24 dev br0 valid_lft 600 preferred_lft 60"); err != nil {
		t.Error(err)
	}
	for command, want := range map[string]string{
		"ip addr flush 10.0.0.1/24 dev br0":             `"flush" is not understood here; there are add, change, del`,
		"ip route flush 10.9.0.0/24 dev br0":            "there are add, del, replace",
		"ip neigh flush 10.0.0.2 dev br0":               "there are add, del, replace",
		"ip link property list dev br0 altname another": "there are add, del",
	} {
		if err := ip(command); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
	list, err := k.Addresses(k.Own(), 0)
	if err != nil || len(list) != 1 || list[0].Valid != 600 || list[0].Preferred != 60 {
		t.Errorf("%+v, %v", list, err)
	}
}

// Proxies end with a namespace that ends, and who watches them is told, now or later.
func TestProxiesEndWithTheirNamespace(t *testing.T) {
	k := kerneltest.New(kerneltest.Options{})
	blue, err := k.CreateNamed("blue")
	if err != nil {
		t.Fatal(err)
	}
	p := k.Proxies()
	start := func(mark string, listen, forward kernel.NS) kernel.ProxyProcess {
		made, err := p.StartProxy(t.Context(), kernel.Proxy{Mark: mark, Listen: kernel.ProxyEnd{NS: listen, Protocol: "tcp", Address: "0.0.0.0:80"},
			Forward: kernel.ProxyEnd{NS: forward, Protocol: "tcp"}}, func(kernel.ProxyProcess) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	processes := []kernel.ProxyProcess{start("into", k.Own(), blue), start("from", blue, k.Own())}
	_, err = p.StartProxy(t.Context(), kernel.Proxy{Mark: "late", Listen: kernel.ProxyEnd{NS: blue, Protocol: "tcp", Address: "0.0.0.0:81"}},
		func(kernel.ProxyProcess) error { return k.DeleteNamed("blue") })
	if !errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("the namespace went before it served: %v", err)
	}
	for _, one := range processes {
		if _, err := p.ReadProxy(t.Context(), one); !errors.Is(err, kernel.ErrNotExist) {
			t.Errorf("%s: %v", one.Mark, err)
		}
	}
	if _, err := p.StartProxy(t.Context(), kernel.Proxy{Listen: kernel.ProxyEnd{NS: blue}}, nil); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var told []string
	p.WatchProxies(ctx, func(mark string) {
		if told = append(told, mark); len(told) == 3 {
			cancel()
		}
	})
	if !slices.Equal(told, []string{"into", "from", "late"}) {
		t.Errorf("told of %v", told)
	}
}

// What is in other ports is among the commands too.
func TestString(t *testing.T) {
	k := kerneltest.New(kerneltest.Options{})
	blue, err := k.CreateNamed("blue")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		k.Tables().CreateTable(t.Context(), blue, kernel.Table{Family: "inet", Name: "x", Comment: "mine", Chains: []kernel.TableChain{
			{Name: "in", Type: "filter", Hook: "ingress", Priority: "filter", Policy: "drop", Devices: []string{"b", "a"}, Rules: []string{"accept"}}},
			Flowtables: []kernel.TableFlowtable{{Name: "f", Priority: "filter", Devices: []string{"a"}, Counter: true, Offload: true}}}),
		k.Tables().CreateTable(t.Context(), k.Own(), kernel.Table{Family: "ip", Name: "x"}),
		k.Iptables(k.Own(), "iptables-nft -P FORWARD DROP"),
		k.Iptables(k.Own(), "iptables-nft -N MINE"),
		k.Iptables(k.Own(), "iptables-nft -A FORWARD -i br0 -j MINE"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Proxies().StartProxy(t.Context(), kernel.Proxy{Mark: "plumb:host7:proxy/web", Rules: kernel.ProxyRules{Address: "10.0.0.1:80"},
		Listen:  kernel.ProxyEnd{NS: k.Own(), Protocol: "tcp", Address: "0.0.0.0:80"},
		Forward: kernel.ProxyEnd{NS: blue, Protocol: "tcp"}}, func(kernel.ProxyProcess) error { return nil }); err != nil {
		t.Fatal(err)
	}
	const want = `ip netns add blue
nft 'add table ip x { comment ""; }'
iptables-nft -P FORWARD DROP
iptables-nft -N MINE
iptables-nft -A FORWARD -i br0 -j MINE
ip netns exec blue nft 'add table inet x { comment "mine"; }'
ip netns exec blue nft 'add chain inet x in { type filter hook ingress devices = { a, b } priority filter; policy drop; }'
ip netns exec blue nft 'add flowtable inet x f { hook ingress priority filter; devices = { a }; counter; flags offload; }'
ip netns exec blue nft 'add rule inet x in accept'
# plumb:host7:proxy/web: tcp 0.0.0.0:80 to tcp 10.0.0.1:80 in blue
`
	if got := k.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, bad := range []string{"iptables-nft", "iptables-nft -A", "iptables-nft -Z FORWARD", "iptables-legacy -A FORWARD", "iptables-nft -I FORWARD 7 -j DROP"} {
		if err := k.Iptables(k.Own(), bad); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
}
