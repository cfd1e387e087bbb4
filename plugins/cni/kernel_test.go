package cni_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/address"
	"github.com/plumb-net/plumb/descriptors/announce"
	"github.com/plumb-net/plumb/descriptors/hostlink"
	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/ipam"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/namespace"
	"github.com/plumb-net/plumb/descriptors/netns"
	"github.com/plumb-net/plumb/descriptors/nftables"
	"github.com/plumb-net/plumb/descriptors/qdisc"
	"github.com/plumb-net/plumb/descriptors/route"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/descriptors/sysctl"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	nft "github.com/plumb-net/plumb/plugins/nftables"
	"github.com/plumb-net/plumb/scheduler"
)

// machine is a host of its own, with the kinds that an agent has and the service.
type machine struct {
	t       *testing.T
	own     *netlinktest.Namespace
	sched   *scheduler.Scheduler
	service *cni.Service
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, own: withIPv6(t)}
	k, err := netlink.New(netlink.Options{OwnPath: m.own.Path, NamedDir: netlinktest.Dir(t)})
	must(t, err)
	book := ipam.Open(&kernel.MemLedger{}, nil)
	store, _ := cni.OpenStore(&kernel.MemLedger{})
	owner := kernel.NewOwner("cni-test", "boot", &kernel.MemLedger{}, nil)
	m.sched = scheduler.New(scheduler.Options{Sources: []string{"operator", cni.Source}})
	registerTo(t, m.sched, ipam.Pools(book))
	registerTo(t, m.sched, ipam.Leases(book))
	registerTo(t, m.sched, ipam.Claims(book))
	views := selector.Views{
		Pods:  store,
		NetNS: registerTo(t, m.sched, netns.New(k, owner, netns.Options{Dir: netlinktest.Dir(t)})),
		Refs:  registerTo(t, m.sched, namespace.New(k, namespace.Options{Pods: store})),
	}
	names, places, self, announcer := &kernel.Names{}, selector.NewResolver(k, views), &iface.Self{}, announce.New(k, nil)
	registerTo(t, m.sched, hostlink.New(hostlink.Deps{Kernel: k, Owner: owner, Names: names, Places: places}))
	interfaces := registerTo(t, m.sched, iface.New(iface.Deps{Kernel: k, Owner: owner, Names: names, Places: places, Interfaces: self, Announcer: announcer}))
	self.Bind(interfaces)
	registerTo(t, m.sched, address.New(address.Deps{Kernel: k, Owner: owner, Names: names, Interfaces: interfaces, Claims: book, Announcer: announcer}))
	registerTo(t, m.sched, route.New(route.Deps{Kernel: k, Owner: owner, Names: names, Places: places, Interfaces: interfaces, Claims: book}))
	registerTo(t, m.sched, route.OnLink())
	registerTo(t, m.sched, nftables.New(nftables.Deps{Kernel: k, Tables: nft.New(k, ""), Owner: owner, Places: places, Claims: book}))
	registerTo(t, m.sched, qdisc.New(qdisc.Deps{Kernel: k, Owner: owner, Names: names, Interfaces: interfaces}))
	registerTo(t, m.sched, sysctl.New(sysctl.Deps{Kernel: k, Owner: owner, Places: places, Interfaces: interfaces}))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.sched.Run(ctx) })
	running.Go(func() { _ = announcer.Run(ctx) })
	m.want()
	m.service = cni.NewService(m.sched, store, kernelHost{newFakeHost(), k}, slog.New(slog.DiscardHandler))
	m.service.Restore()
	running.Go(func() { _ = m.service.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); k.Close() })
	return m
}

func registerTo[V, M any](t *testing.T, s *scheduler.Scheduler, d scheduler.Descriptor[V, M]) *scheduler.Kind[V, M] {
	t.Helper()
	k, err := scheduler.Register(s, d)
	must(t, err)
	return k
}

// want is the first and complete word of an operator.
func (m *machine) want(changes ...scheduler.Change) {
	m.sched.Submit(scheduler.Txn{Source: "operator", Complete: true, Want: changes})
}

func (m *machine) call(command, container string, at *netlinktest.Namespace, config string) wire.Answer {
	m.t.Helper()
	if command == "CHECK" {
		config = withResult(m.t, m.service, config, container, "eth0")
	}
	r := wire.Request{Protocol: 1, Config: json.RawMessage(config), Args: spec.Args{Command: command, ContainerID: container, IfName: "eth0"}}
	if at != nil {
		r.Netns, r.Inode = at.Path, at.Inode
	}
	c, wrong := cni.Parse(r)
	if wrong != nil {
		m.t.Fatal(wrong)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	return m.service.Serve(ctx, c)
}

func (m *machine) add(container string, at *netlinktest.Namespace, config string) spec.Result {
	m.t.Helper()
	a := m.call("ADD", container, at, config)
	if a.Error != nil {
		m.t.Fatal(a.Error)
	}
	return *a.Result
}

// withIPv6 makes a namespace that has IPv6, which a host may disable by default.
func withIPv6(t *testing.T) *netlinktest.Namespace {
	t.Helper()
	n := netlinktest.New(t)
	n.IPv6(t)
	return n
}

// TestKernel_Routed: each container is on a link of its own; they reach the host at
// its gateway, and each other by it, in both families, at the instant of the answer.
func TestKernel_Routed(t *testing.T) {
	m := newMachine(t)
	m.own.Sysctl(t, "ipv4/ip_forward", "1")
	m.own.Sysctl(t, "ipv6/conf/all/forwarding", "1")
	config := `{"cniVersion":"1.1.0","name":"blue","mode":"routed","mtu":1400,"pool":["10.62.0.0/24","fd62::/64"]}`
	var spaces []*netlinktest.Namespace
	for i := range 2 {
		at := withIPv6(t)
		spaces = append(spaces, at)
		r := m.add(fmt.Sprint("c", i), at, config)
		if len(r.Interfaces) != 2 || len(r.IPs) != 2 || r.IPs[0].Gateway != "10.62.0.1" || r.IPs[1].Gateway != "fd62::1" {
			t.Errorf("%+v", r)
		}
		at.Run(t, "busybox", "ping", "-c1", "-W5", "10.62.0.1")
		at.Run(t, "busybox", "ping", "-c1", "-W5", "fd62::1")
	}
	spaces[1].Run(t, "busybox", "ping", "-c1", "-W5", "10.62.0.2")
	spaces[1].Run(t, "busybox", "ping", "-c1", "-W5", "fd62::2")
	m.own.Run(t, "busybox", "ping", "-c1", "-W5", "10.62.0.3")
	if links := m.own.IP(t, "-br link show type bridge"); links != "" {
		t.Errorf("there is a bridge: %s", links)
	}
	for i := range 2 {
		if a := m.call("DEL", fmt.Sprint("c", i), nil, config); a.Error != nil || len(a.Warnings) > 0 {
			t.Errorf("%+v", a)
		}
	}
	left := m.own.IP(t, "-br link show") + m.own.IP(t, "-4 route show") + m.own.IP(t, "-6 route show") + spaces[0].IP(t, "-br link show")
	if strings.Contains(left, "10.62") || strings.Contains(left, "fd62") || strings.Contains(left, "pv") || strings.Contains(left, "eth0") {
		t.Errorf("left:\n%s", left)
	}
}

// TestKernel_Intent: what an operator wants in a pod is made in the namespace of the
// call, before anybody else knows the container; a DEL takes it out again.
func TestKernel_Intent(t *testing.T) {
	m := newMachine(t)
	at := withIPv6(t)
	config := `{"cniVersion":"1.1.0","name":"green","mode":"intent"}`
	in := &models.Namespace{In: &models.Namespace_Pod{Pod: "c1"}}
	m.want(
		scheduler.Set("interface/web", &models.Interface{Namespace: in, HostName: "eth0", Addresses: []string{"10.9.0.7/24"},
			Link: &models.Interface_Veth{Veth: &models.Veth{Peer: "web-host"}}}),
		scheduler.Set("interface/web-host", &models.Interface{HostName: "web0", Addresses: []string{"10.9.0.1/24"},
			Link: &models.Interface_Veth{Veth: &models.Veth{Peer: "web"}}}),
		scheduler.Set("route/web", &models.Route{Interface: "web", Destination: "default", Gateway: "10.9.0.1"}),
		scheduler.Set("interface/lone", &models.Interface{Namespace: in, Link: &models.Interface_Bridge{Bridge: &models.Bridge{}}}),
	)
	r := m.add("c1", at, config)
	if len(r.IPs) != 1 || r.IPs[0].Gateway != "10.9.0.1" || r.Interfaces[1].Sandbox != at.Path {
		t.Errorf("%+v", r)
	}
	at.Run(t, "busybox", "ping", "-c1", "-W5", "10.9.0.1")
	if a := m.call("DEL", "c1", nil, config); a.Error != nil || len(a.Warnings) > 0 {
		t.Errorf("%+v", a)
	}
	if left := at.IP(t, "-br link show"); strings.Contains(left, "eth0") {
		t.Errorf("left:\n%s", left)
	}
	r = m.add("c1", at, config)
	if len(r.IPs) != 1 {
		t.Errorf("again: %+v", r)
	}
}

// TestKernel_Sysctl: settings are in place when ADD returns, in the container only;
// a CHECK mends what somebody has changed; a DEL leaves them as they were.
func TestKernel_Sysctl(t *testing.T) {
	m := newMachine(t)
	at := withIPv6(t)
	config := `{"cniVersion":"1.1.0","name":"blue","pool":"10.62.0.0/24","sysctl":{
		"net.ipv4.ip_unprivileged_port_start":"80","net.ipv4.conf.IFNAME.arp_notify":"1"}}`
	m.add("c1", at, config)
	for place, want := range map[string]string{"ip_unprivileged_port_start": "80", "conf/eth0/arp_notify": "1"} {
		if got := strings.TrimSpace(at.Run(t, "cat", "/proc/sys/net/ipv4/"+place)); got != want {
			t.Errorf("%s is %q, want %q", place, got, want)
		}
	}
	if got := strings.TrimSpace(m.own.Run(t, "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start")); got != "1024" {
		t.Errorf("the host's is %q", got)
	}
	at.Sysctl(t, "ipv4/conf/eth0/arp_notify", "0")
	if a := m.call("CHECK", "c1", at, config); a.Error != nil {
		t.Error(a.Error)
	}
	if got := strings.TrimSpace(at.Run(t, "cat", "/proc/sys/net/ipv4/conf/eth0/arp_notify")); got != "1" {
		t.Errorf("after a CHECK it is %q", got)
	}
	if a := m.call("DEL", "c1", at, config); a.Error != nil || len(a.Warnings) > 0 {
		t.Errorf("%+v", a)
	}
	if got := strings.TrimSpace(at.Run(t, "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start")); got != "1024" {
		t.Errorf("after the DEL it is %q", got)
	}
	a := m.call("ADD", "c1", at, strings.Replace(config, "ip_unprivileged_port_start", "ip_unprivileged_ports", 1))
	if a.Error == nil || !strings.Contains(a.Error.Details, "net.ipv4.ip_unprivileged_ports is no setting of this namespace") {
		t.Errorf("%+v", a)
	}
	if left := at.IP(t, "-br link show"); strings.Contains(left, "eth0") {
		t.Errorf("left:\n%s", left)
	}
}

// TestKernel_Bandwidth limits the bandwidth of containers, by their network and by a request. A CHECK restores a limit that
// the container has removed, and a DEL leaves no limit.
func TestKernel_Bandwidth(t *testing.T) {
	m := newMachine(t)
	m.own.Sysctl(t, "ipv4/ip_forward", "1")
	is := func(at *netlinktest.Namespace, want string) {
		t.Helper()
		if got := at.Run(t, "tc", "qdisc", "show"); want != "" && !strings.Contains(got, want) || want == "" && strings.Contains(got, "tbf") {
			t.Errorf("the queueing disciplines are\n%s, want %q", got, want)
		}
	}
	for _, mode := range []string{"bridge", "routed"} {
		network := `{"cniVersion":"1.1.0","name":"` + mode + `","mode":"` + mode + `","pool":"10.62.0.0/24","bandwidth":{"ingressRate":10000000,"ingressBurst":800000}`
		one, two := withIPv6(t), withIPv6(t)
		r := m.add("c1", one, network+"}")
		is(m.own, "rate 10Mbit burst 100000b")
		is(one, "")
		requested := network + `,"runtimeConfig":{"bandwidth":{"egressRate":8000000}}}`
		m.add("c2", two, requested)
		is(two, "rate 8Mbit burst 32Kb")
		if n := strings.Count(m.own.Run(t, "tc", "qdisc", "show"), "tbf"); n != 1 {
			t.Errorf("%d limits on the host", n)
		}
		if out, err := two.Try("busybox", "ping", "-c1", "-W5", strings.Split(r.IPs[0].Address, "/")[0]); err != nil {
			t.Error(err, out)
		}
		two.Run(t, "tc", "qdisc", "del", "dev", "eth0", "root")
		if a := m.call("CHECK", "c2", two, requested); a.Error != nil {
			t.Error(a.Error)
		}
		is(two, "rate 8Mbit burst 32Kb")
		for container, at := range map[string]*netlinktest.Namespace{"c1": one, "c2": two} {
			if a := m.call("DEL", container, at, network+"}"); a.Error != nil || len(a.Warnings) > 0 {
				t.Errorf("%+v", a)
			}
		}
		is(m.own, "")
	}
}

// upstream is a network beyond the host, which knows the host's addresses 192.0.2.1 and
// 2001:db8::1 there, and no way to any container. Its own end in .2 and ::2.
func (m *machine) upstream() *netlinktest.Namespace {
	m.t.Helper()
	up := withIPv6(m.t)
	m.own.IP(m.t, "link add up0 type veth peer name eth0 netns "+up.Path)
	for _, side := range []struct {
		at         *netlinktest.Namespace
		link, host string
	}{{m.own, "up0", "1"}, {up, "eth0", "2"}} {
		side.at.IP(m.t, "addr add 192.0.2."+side.host+"/24 dev "+side.link)
		side.at.IP(m.t, "addr add 2001:db8::"+side.host+"/64 dev "+side.link+" nodad")
		side.at.IP(m.t, "link set "+side.link+" up")
	}
	m.own.Sysctl(m.t, "ipv4/ip_forward", "1")
	m.own.Sysctl(m.t, "ipv6/conf/all/forwarding", "1")
	return up
}

// from counts the echo requests that come to a namespace from an address.
func from(t *testing.T, at *netlinktest.Namespace, addresses ...string) (count func(address string) string) {
	t.Helper()
	at.Run(t, "nft", "add table inet seen; add chain inet seen in { type filter hook input priority 0; }")
	for _, a := range addresses {
		rule := "ip saddr " + a + " icmp type echo-request"
		if strings.Contains(a, ":") {
			rule = "ip6 saddr " + a + " icmpv6 type echo-request"
		}
		at.Run(t, "nft", "add rule inet seen in "+rule+" counter comment \""+a+"\"")
	}
	return func(address string) string {
		t.Helper()
		for line := range strings.Lines(at.Run(t, "nft", "list chain inet seen in")) {
			if before, _, ok := strings.Cut(line, ` comment "`+address+`"`); ok {
				words := strings.Fields(before)
				return words[len(words)-3]
			}
		}
		return "none"
	}
}

// TestKernel_Masquerade: what leaves a network arrives elsewhere with the
// host's address, and is answered there; between containers nothing is hidden. With
// the last container the table goes.
func TestKernel_Masquerade(t *testing.T) {
	for _, mode := range []string{"bridge", "routed"} {
		t.Run(mode, func(t *testing.T) {
			m := newMachine(t)
			up := m.upstream()
			config := `{"cniVersion":"1.1.0","name":"blue","mode":"` + mode + `","pool":["10.62.0.0/24","fd62::/64"],"masquerade":true}`
			c0, c1 := withIPv6(t), withIPv6(t)
			m.add("c0", c0, config)
			m.add("c1", c1, config)
			beyond := from(t, up, "192.0.2.1", "2001:db8::1", "10.62.0.2", "fd62::2")
			inside := from(t, c1, "10.62.0.2", "fd62::2")
			for _, to := range []string{"192.0.2.2", "2001:db8::2", "10.62.0.3", "fd62::3"} {
				c0.Run(t, "busybox", "ping", "-c1", "-W30", to)
			}
			for address, want := range map[string]string{"192.0.2.1": "1", "2001:db8::1": "1", "10.62.0.2": "0", "fd62::2": "0"} {
				if got := beyond(address); got != want {
					t.Errorf("beyond the host %s packets came from %s, want %s", got, address, want)
				}
			}
			for _, address := range []string{"10.62.0.2", "fd62::2"} {
				if got := inside(address); got != "1" {
					t.Errorf("%s packets came from %s to the other container", got, address)
				}
			}
			if a := m.call("DEL", "c0", c0, config); a.Error != nil || len(a.Warnings) > 0 {
				t.Errorf("%+v", a)
			}
			c1.Run(t, "busybox", "ping", "-c1", "-W30", "192.0.2.2")
			if a := m.call("DEL", "c1", c1, config); a.Error != nil || len(a.Warnings) > 0 {
				t.Errorf("%+v", a)
			}
			if rules := m.own.Run(t, "nft", "list ruleset"); rules != "" {
				t.Errorf("left:\n%s", rules)
			}
		})
	}
}

// TestKernel_Churn: no ADD is refused while the last attachment of its network goes, and with
// it the bridge and the gateway's address, nor while somebody removes that address and it is
// repaired.
func TestKernel_Churn(t *testing.T) {
	m := newMachine(t)
	config := `{"cniVersion":"1.1.0","name":"blue","pool":["10.62.0.0/24","fd62::/64"],"bridge":"br-blue"}`
	ctx, stop := context.WithCancel(t.Context())
	var workers, vandal sync.WaitGroup
	for i := range 2 {
		at, container := withIPv6(t), fmt.Sprint("c", i)
		workers.Go(func() {
			for range *churns {
				if a := m.call("ADD", container, at, config); a.Error != nil {
					t.Error(a.Error)
				}
				if a := m.call("DEL", container, at, config); a.Error != nil {
					t.Error(a.Error)
				}
			}
		})
	}
	vandal.Go(func() {
		for ctx.Err() == nil { // the bridge may not be there
			_, _ = m.own.Try("ip", "address", "delete", "10.62.0.1/24", "dev", "br-blue")
			time.Sleep(5 * time.Millisecond)
		}
	})
	workers.Wait()
	stop()
	vandal.Wait()
}

var churns = flag.Int("churns", 20, "ADDs and DELs of each container in TestKernel_Churn")
