package kerneltest_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

var (
	histories = flag.Int("histories", 5, "how many random histories TestRandomCommands plays on both kernels")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first of them")
)

// TestRandomCommands gives the same commands, made up at random, to the kernel in memory and to
// that of the host: after each both have answered the same, and have the same.
func TestRandomCommands(t *testing.T) {
	for i := range *histories {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { playRandom(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func playRandom(t *testing.T, r *rand.Rand) {
	own := netlinktest.New(t)
	own.Defaults(t)
	linux, err := netlink.New(netlink.Options{OwnPath: own.Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer linux.Close()
	memory := kerneltest.New(kerneltest.Options{})
	var told strings.Builder
	for range 60 {
		command := made(r)
		answer := fmt.Sprint(said(kerneltest.IP(memory, memory.Own(), command)))
		fmt.Fprintf(&told, "%s: %s\n", command, answer)
		if got := said(kerneltest.IP(linux, linux.Own(), command)); got != answer {
			t.Fatalf("Linux says %s\n%s\n%s", got, told.String(), memory)
		}
		want := memory.String()
		if got := shown(t, linux, want); got != want {
			t.Fatalf("after\n%s\nLinux has\n%s\nand in memory there is\n%s", told.String(), got, want)
		}
	}
}

func said(err error) string {
	if err == nil {
		return "done"
	}
	return reason(err)
}

// made is a command about few things, so that they meet.
func made(r *rand.Rand) string {
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	link := func() string { return one("a", "b", "c", "d", "br0") }
	address := func() string {
		return one("10.0.0.1/24", "10.0.0.2/24", "10.0.1.1/24", "10.0.0.1/32", "10.0.0.1/16", "fd00::1/64", "fd00::2/64", "fd01::1/64")
	}
	dst := func() (family, prefix, gateway string) {
		if r.IntN(3) == 0 {
			return "-6 ", one("default", "fd09::/64", "fd01::/64", "fd00::7/128"), one("fd00::9", "fd01::9", "fe80::9")
		}
		return "", one("default", "10.9.0.0/16", "10.0.1.0/24", "10.0.0.7/32"), one("10.0.0.9", "10.0.1.9", "10.0.0.1", "10.9.0.1")
	}
	family, to, gateway := dst()
	commands := []string{
		"ip link add a address 02:00:00:00:00:0a type veth peer name b address 02:00:00:00:00:0b",
		"ip link add c address 02:00:00:00:00:0c type veth peer name d address 02:00:00:00:00:0d",
		"ip link add br0 type bridge",
		"ip link del " + link(),
		"ip link set " + link() + " up",
		"ip link set " + link() + " up",
		"ip link set " + link() + " up",
		"ip link set " + link() + " down",
		"ip link set " + link() + " master br0",
		"ip link set " + link() + " nomaster",
		"ip link set " + link() + " mtu " + one("1400", "1500", "1200"),
		"ip link set lo " + one("up", "down"),
		"ip addr add " + address() + " dev " + link(),
		"ip addr add " + address() + " dev " + link(),
		"ip addr add " + address() + " dev " + link(),
		"ip addr add " + address() + " dev " + link() + one(" metric 7", " noprefixroute"),
		"ip addr del " + address() + " dev " + link(),
		"ip " + family + "route add " + to + " via " + gateway,
		"ip " + family + "route add " + to + " via " + gateway + " dev " + link(),
		"ip " + family + "route add " + to + " dev " + link() + one("", " metric 7", " proto 9"),
		"ip " + family + "route add " + to + " via " + gateway + " dev " + link() + " onlink",
		"ip " + family + "route replace " + to + " via " + gateway,
		"ip " + family + "route add blackhole " + to,
		"ip " + family + "route del " + to,
		"ip neigh " + one("add", "replace") + " " + one("10.0.0.9", "fd00::9") + " lladdr 02:00:00:00:00:09 dev " + link(),
		"ip neigh del " + one("10.0.0.9", "fd00::9") + " dev " + link(),
		"ip rule " + one("add", "del") + " pref 7 from 10.0.0.0/8 table " + one("7", "8"),
		"ip nexthop " + one("add", "replace") + " id " + one("1", "2") + " via " + one("10.0.0.9", "fd00::9", "10.0.1.9") + " dev " + link(),
		"ip nexthop add id 3 group " + one("1", "1/2"),
		"ip nexthop del id " + one("1", "2", "3"),
		"ip route add 10.7.0.0/16 nhid " + one("1", "3"),
		"ip link add m link " + link() + " address 02:00:00:00:00:0e type macvlan mode bridge",
		"ip link set m " + one("up", "down", "mtu 1400", "master br0", "nomaster"),
		"ip addr " + one("add", "add", "del") + " 10.0.0.1 peer " + one("10.0.0.2/32", "10.2.0.1/24", "10.2.0.9/24") + " dev " + link(),
		"tc qdisc " + one("add", "change", "replace", "del") + " dev " + link() + " root handle " + one("1:", "2:") + one("", " tbf rate 8mbit burst 10000 limit 20000", " tbf rate 8kbit burst 1000 limit 2000"),
		"tc qdisc " + one("add", "add", "add", "del") + " dev " + link() + " " + one("clsact", "clsact", "ingress"),
		"tc filter add dev " + link() + " ingress protocol all u32 match u32 0 0 action mirred egress mirror dev " + link() + " continue cookie " + one("0a", "0b"),
		"tc filter del dev " + link() + " " + one("ingress", "ingress pref 28672"),
	}
	if family == "" || !hosttest.OnDebian() { // of a way of IPv6 without a gateway they say something else
		commands = append(commands, "ip "+family+"route add "+to+" nexthop via "+gateway+" nexthop dev "+link()+" weight 2")
	}
	if hosttest.OnDebian() {
		commands = append(commands,
			"ip link add bo address 02:00:00:00:00:0f type bond mode "+one("active-backup", "balance-rr"),
			"ip link set "+link()+" master bo",
			"ip link set "+link()+" master red",
			"ip link set bo "+one("up", "down", "master br0", "nomaster", "mtu 1400"),
			"ip link add red type vrf table 7",
			"ip link set red "+one("up", "down"),
			"ip link add v link "+one("a", "c", "br0", "bo")+" type vlan id "+one("7", "8"),
			"ip link set v "+one("up", "down", "master br0", "nomaster"),
			"ip link add g type "+one("gre remote 10.0.0.9", "gre local 10.0.0.1", "sit remote 10.0.0.9", "ipip local 10.0.0.1 remote 10.0.0.9"),
			"ip link set g "+one("up", "down"),
			"ip link del "+one("bo", "red", "v", "g", "m"),
		)
	}
	return one(commands...)
}
