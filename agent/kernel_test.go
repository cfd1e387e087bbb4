package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

var (
	_ Kernel = (*hostKernel)(nil)
	_ Kernel = (*kerneltest.Kernel)(nil)
)

func TestMain(m *testing.M) {
	Main() // the store is this program
	os.Exit(m.Run())
}

// onMemory is the configuration of an agent that has nothing of this host but a directory.
func onMemory(t testing.TB, label string) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "pm-") // short: sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := Default()
	c.Label, c.RunDir, c.StateDir = label, filepath.Join(dir, "run"), filepath.Join(dir, "state")
	c.Docker, c.Containerd, c.CRI, c.Resources = "off", "off", "off", "off"
	return c
}

// runOn runs an agent until stop, which may be called twice.
func runOn(t *testing.T, c Config, k Kernel) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- RunOn(ctx, c, k, slog.NewTextHandler(t.Output(), nil)) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			t.Errorf("the agent: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// lines are the commands of a text, without what the kernel made by itself.
func lines(text string) (list []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# plumb:") { // what the agent made there is no command for
			line, _, _ = strings.Cut(line, "#")
		}
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// A whole agent with its store works on a kernel in memory: what is put into etcd is built,
// what somebody else breaks is repaired, a restart writes nothing, and what nobody wants goes.
func TestRunOnAKernelInMemory(t *testing.T) {
	k, c := kerneltest.New(kerneltest.Options{}), onMemory(t, "host7")
	stop := runOn(t, c, k)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(c.RunDir, "etcd.sock")}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	intent := map[string]string{
		"netns/blue":     `{}`,
		"interface/br0":  `{"bridge":{},"addresses":["10.0.0.1/24"]}`,
		"interface/port": `{"veth":{"peer":"web"},"master":"br0"}`,
		"interface/web":  `{"namespace":{"netns":"blue"},"host_name":"eth0","veth":{"peer":"port"},"addresses":["10.0.0.2/24","fd00::2/64"]}`,
		"route/default":  `{"interface":"web","destination":"default","gateway":"10.0.0.1"}`,
		"nftables/in":    `{"namespace":{"netns":"blue"},"chains":[{"name":"in","type":"filter","hook":"input","priority":"filter","policy":"drop","rules":["tcp dport 80 accept"]}]}`,
		"forward/br0":    `{"interface":"br0"}`,
		"proxy/web":      `{"listen":{"address":"10.0.0.1:80"},"forward":{"namespace":{"netns":"blue"},"address":"10.0.0.2:80"}}`,
		"qdisc/web":      `{"interface":"web","tbf":{"rate":1000}}`,
		"mirror/port":    `{"interface":"port","to":"br0"}`,
	}
	firewall := func(commands ...string) {
		t.Helper()
		for _, command := range commands {
			if err := k.Iptables(k.Own(), command); err != nil {
				t.Fatal(err)
			}
		}
	}
	firewall("iptables-nft -P FORWARD DROP", "iptables-nft -A FORWARD -j LOG")
	for key, value := range intent {
		if _, err := etcd.Put(t.Context(), "/plumb/host7/config/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	built := []string{
		"ip netns add blue",
		"ip link add name br0 type bridge",
		"ip link add name port type veth peer name eth0 netns blue",
	}
	shows := func(what string, want ...string) {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Log(k)
			}
		}()
		netlinktest.Eventually(t, what, func() bool {
			now := lines(k.String())
			for _, line := range want {
				if !slices.Contains(now, line) {
					return false
				}
			}
			return len(want) > 0 || len(now) == 0
		})
	}
	addresses := []string{"ip addr add 10.0.0.1/24 dev br0", "ip -n blue addr add 10.0.0.2/24 dev eth0", "ip -n blue addr add fd00::2/64 dev eth0"}
	way := "ip -n blue route add default via 10.0.0.1 dev eth0 proto 240"
	traffic := []string{
		"tc -n blue qdisc add dev eth0 root handle 7988: tbf rate 1Mbit burst 32768 limit 39018",
		"tc qdisc add dev port clsact",
		"tc filter add dev port ingress pref 28672 protocol all u32 match u32 0 0 action mirred egress mirror dev br0 continue cookie 64907cac170fa0eed93b5ac543b81f6b",
	}
	others := []string{ // than the kernel's own port
		`ip netns exec blue nft 'add chain inet in in { type filter hook input priority filter; policy drop; }'`,
		`ip netns exec blue nft 'add rule inet in in tcp dport 80 accept'`,
		"iptables-nft -A FORWARD -i br0 -m comment --comment plumb:host7:forward/br0 -j ACCEPT",
		"iptables-nft -A FORWARD -o br0 -m comment --comment plumb:host7:forward/br0 -j ACCEPT",
		"# plumb:host7:proxy/web: tcp 10.0.0.1:80 to tcp 10.0.0.2:80 in blue",
	}
	all := slices.Concat(built, addresses, []string{way}, traffic, others)
	shows("it is built", all...)

	api := client.New(filepath.Join(c.RunDir, "agent.sock"))
	defer api.Close()
	netlinktest.Eventually(t, "it is ready", func() bool {
		status, _, err := api.Page(t.Context(), "/readyz")
		return err == nil && status == 200
	})

	for _, harm := range []string{
		"ip -n blue addr del 10.0.0.2/24 dev eth0", "ip -n blue link del eth0", "ip -n blue route del default", "ip link del br0", "ip -n blue link set eth0 down",
		"tc qdisc del dev port clsact", "tc -n blue qdisc del dev eth0 root",
	} {
		if err := kerneltest.IP(k, k.Own(), harm); err != nil {
			t.Fatalf("%s: %v", harm, err)
		}
		shows("repaired after "+harm, all...)
	}
	blue, err := k.Open("/run/netns/blue")
	if err == nil {
		err = k.Tables().ReplaceTable(t.Context(), blue, kernel.Table{Family: "inet", Name: "in", Comment: "plumb:host7:nftables/in"})
	}
	if err != nil {
		t.Fatal(err)
	}
	shows("repaired after another table", all...)
	k.KillProxies("plumb:host7:proxy/web")
	shows("repaired after the end of a proxy", all...)
	// What is told of it may be lost.
	if err := kerneltest.IP(k, k.Own(), "ip link del br0"); err != nil {
		t.Fatal(err)
	}
	k.Overrun(k.Own())
	shows("repaired after a loss", all...)

	stop()
	before := k.Writes()
	stop = runOn(t, c, k)
	if _, err := etcd.Put(t.Context(), "/plumb/host7/config/interface/new", `{"dummy":{}}`); err != nil {
		t.Fatal(err)
	}
	shows("it goes on after a restart", append(slices.Clone(all), "ip link add name new type dummy")...)
	if n := k.Writes() - before; n > 3 { // the new link: born, marked, up
		t.Errorf("%d writes after a restart, in which one link was made", n)
	}
	remove := func(prefixes ...string) {
		t.Helper()
		for _, prefix := range prefixes {
			if _, err := etcd.Delete(t.Context(), "/plumb/host7/config/"+prefix, clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove("forward/", "mirror/", "nftables/", "proxy/", "qdisc/") // first: all at once would be held back
	netlinktest.Eventually(t, "what stands on links has gone", func() bool {
		now := lines(k.String())
		return !slices.ContainsFunc(slices.Concat(traffic, others), func(line string) bool { return slices.Contains(now, line) })
	})
	remove("")
	firewall("iptables-nft -P FORWARD ACCEPT", "iptables-nft -D FORWARD -j LOG")
	shows("nothing is left")
	stop()
}

// Threads, which work within a namespace, only a host has.
func TestWithinElsewhere(t *testing.T) {
	g := elsewhere(kerneltest.New(kerneltest.Options{}))
	if err := g.within(g.Own(), func() error { return nil }); !errors.Is(err, kernel.ErrUnsupported) {
		t.Error(err)
	}
}
