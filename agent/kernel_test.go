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
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

var (
	_ Kernel = (*netlink.Kernel)(nil)
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
		line, _, _ = strings.Cut(line, "#")
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
		"nftables/none":  `{"chains":[{"name":"a","rules":["accept"]}]}`,
	}
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
	addresses := []string{"ip addr add 10.0.0.1/24 dev br0", "ip -n blue addr add 10.0.0.2/24 dev eth0", "ip -n blue addr add fd00::2/64 dev eth0 nodad"}
	way := "ip -n blue route add default via 10.0.0.1 dev eth0 proto 240"
	all := append(append(slices.Clone(built), addresses...), way)
	shows("it is built", all...)

	api := client.New(filepath.Join(c.RunDir, "agent.sock"))
	defer api.Close()
	netlinktest.Eventually(t, "it is ready", func() bool {
		status, _, err := api.Page(t.Context(), "/readyz")
		return err == nil && status == 200
	})
	netlinktest.Eventually(t, "a table is refused", func() bool {
		r, err := etcd.Get(t.Context(), "/plumb/host7/status/nftables/none")
		return err == nil && r.Count == 1 && strings.Contains(string(r.Kvs[0].Value), "only the kernel of a host has it")
	})

	for _, harm := range []string{
		"ip -n blue addr del 10.0.0.2/24 dev eth0", "ip -n blue link del eth0", "ip -n blue route del default", "ip link del br0", "ip -n blue link set eth0 down",
	} {
		if err := kerneltest.IP(k, k.Own(), harm); err != nil {
			t.Fatalf("%s: %v", harm, err)
		}
		shows("repaired after "+harm, all...)
	}
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
	if _, err := etcd.Delete(t.Context(), "/plumb/host7/config/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	shows("nothing is left")
	stop()
}

// What only a host has is refused, and nothing of this host is looked at.
func TestAbsent(t *testing.T) {
	g := elsewhere(kerneltest.New(kerneltest.Options{}))
	for what, err := range map[string]error{
		"a table":  g.tables.CreateTable(t.Context(), g.Own(), kernel.Table{}),
		"a rule":   g.firewalls.InsertRule(t.Context(), g.Own(), kernel.Firewall{}, "FORWARD", 0, nil),
		"a thread": g.within(g.Own(), func() error { return nil }),
	} {
		if !errors.Is(err, kernel.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := g.proxies.StartProxy(t.Context(), kernel.Proxy{}, nil); !errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("a proxy: %v", err)
	}
}
