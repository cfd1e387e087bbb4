package iface_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/address"
	"github.com/plumb-net/plumb/descriptors/hostlink"
	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/namespace"
	"github.com/plumb-net/plumb/descriptors/netns"
	"github.com/plumb-net/plumb/descriptors/route"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// world is all kinds of the kernel under a real scheduler. Its ledger and its
// kernel outlive the agent.
type world struct {
	t      *testing.T
	own    *netlinktest.Namespace
	dir    string // of named namespaces
	ledger kernel.MemLedger

	k    *netlink.Kernel
	s    *scheduler.Scheduler
	stop func()
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, own: netlinktest.New(t), dir: netlinktest.Dir(t)}
	w.own.IPv6(t)
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts an agent that knows nothing but the ledger.
func (w *world) start() {
	w.t.Helper()
	k, err := netlink.New(netlink.Options{OwnPath: w.own.Path, NamedDir: w.dir})
	if err != nil {
		w.t.Fatal(err)
	}
	s := scheduler.New(scheduler.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w.k, w.s, w.stop = k, s, func() { cancel(); <-done; k.Close() }

	owner, names, self := kernel.NewOwner(label, "boot", &w.ledger, nil), &kernel.Names{}, &iface.Self{}
	refs := register(w.t, s, namespace.New(k, namespace.Options{}))
	nets := register(w.t, s, netns.New(k, owner, netns.Options{Dir: w.dir}))
	places := selector.NewResolver(k, selector.Views{NetNS: nets, Refs: refs, NamedDir: w.dir})
	register(w.t, s, hostlink.New(hostlink.Deps{Kernel: k, Owner: owner, Names: names, Places: places}))
	links := register(w.t, s, iface.New(iface.Deps{Kernel: k, Owner: owner, Names: names, Places: places, Interfaces: self}))
	self.Bind(links)
	register(w.t, s, address.New(address.Deps{Kernel: k, Owner: owner, Names: names, Interfaces: links}))
	register(w.t, s, route.New(route.Deps{Kernel: k, Owner: owner, Names: names, Places: places, Interfaces: links}))
	register(w.t, s, route.OnLink())
}

func register[V, M any](t *testing.T, s *scheduler.Scheduler, d scheduler.Descriptor[V, M]) *scheduler.Kind[V, M] {
	t.Helper()
	k, err := scheduler.Register(s, d)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// apply takes lines "key value"; a key alone is withdrawn.
func (w *world) apply(complete bool, lines ...string) scheduler.Result {
	w.t.Helper()
	txn := scheduler.Txn{Complete: complete}
	for _, line := range lines {
		key, text, _ := strings.Cut(line, " ")
		if text == "" {
			txn.Want = append(txn.Want, scheduler.Withdraw(scheduler.Key(key)))
			continue
		}
		v, err := models.Decode(key, []byte(text))
		if err != nil {
			w.t.Fatalf("%s: %v", key, err)
		}
		txn.Want = append(txn.Want, scheduler.Set(scheduler.Key(key), v))
	}
	ctx, cancel := context.WithTimeout(context.Background(), netlinktest.Patience)
	defer cancel()
	r, err := w.s.Apply(ctx, txn)
	if err != nil {
		w.t.Fatalf("apply: %v\n%s", err, w)
	}
	return r
}

// await waits until the keys of the lines are in the state.
func (w *world) await(state scheduler.State, lines ...string) {
	w.t.Helper()
	var missing string
	defer func() {
		if w.t.Failed() {
			w.t.Logf("waiting for %s %s\n%s", missing, state, w)
		}
	}()
	netlinktest.Eventually(w.t, fmt.Sprintf("all %s", state), func() bool {
		for _, line := range lines {
			missing, _, _ = strings.Cut(line, " ")
			st, _ := w.s.Get(context.Background(), scheduler.Key(missing)) // unknown keys are absent
			if st.State != state || st.Busy {
				return false
			}
		}
		return true
	})
}

// ip waits until what ip prints in blue has the words, and not those with a dash before.
func (w *world) ip(args string, words ...string) {
	w.t.Helper()
	blue := &netlinktest.Namespace{Path: w.dir + "/blue"}
	var out string
	defer func() {
		if w.t.Failed() {
			w.t.Logf("ip %s:\n%s\n%s", args, out, w)
		}
	}()
	netlinktest.Eventually(w.t, fmt.Sprintf("ip %s: %q", args, words), func() bool {
		var err error
		if out, err = blue.Try(append([]string{"ip"}, strings.Fields(args)...)...); err != nil {
			return false // no such link yet
		}
		for _, word := range words {
			unwanted := strings.TrimPrefix(word, "-")
			if strings.Contains(out, unwanted) != (word == unwanted) {
				return false
			}
		}
		return true
	})
}

func (w *world) String() string {
	var b strings.Builder
	list, _ := w.s.List(context.Background(), "netns/", "interface/", "address/", "route/", "hostlink/")
	for _, st := range list {
		fmt.Fprintf(&b, "%-30s %-12s %s %v\n", st.Key, st.State, st.Reason, st.Missing)
	}
	return b.String()
}

var story = []string{
	`netns/blue {}`,
	`interface/br0 {"bridge":{},"addresses":["10.0.0.1/24","fd00::1/64"]}`,
	`interface/port {"veth":{"peer":"web"},"master":"br0"}`,
	`interface/web {"namespace":{"netns":"blue"},"host_name":"eth0","veth":{"peer":"port"},"addresses":["10.0.0.2/24","fd00::2/64"]}`,
	`interface/lo-blue {"namespace":{"netns":"blue"},"loopback":{}}`,
	`interface/uplink {"existing":{},"host_name":"eth9","mtu":1400,"enabled":true,"addresses":["192.0.2.1/24"]}`,
	`interface/mv {"namespace":{"netns":"blue"},"macvlan":{"parent":"uplink"}}`,
	`route/default {"interface":"web","destination":"default","gateway":"10.0.0.1"}`,
	`route/default6 {"interface":"web","destination":"default","gateway":"fd00::1"}`,
	`route/hole {"namespace":{"netns":"blue"},"type":"blackhole","destination":"10.99.0.0/16"}`,
	`route/up {"interface":"uplink","destination":"198.51.100.0/24","gateway":"192.0.2.254"}`,
}

// TestWorld tells the whole story: built as its parts appear, left alone when
// equal, kept across a restart, repaired, rebuilt and taken down.
func TestWorld(t *testing.T) {
	w := newWorld(t)
	w.apply(true, story...)
	w.await(scheduler.Pending, "interface/uplink", "interface/mv", "route/up")
	w.own.IP(t, "link add eth9 type veth peer name far9")
	w.await(scheduler.Configured, story...)

	untouched := func(what string, f func() scheduler.Result) {
		t.Helper()
		before := w.k.Writes()
		if r := f(); !r.OK() {
			t.Errorf("%s: not all is configured\n%s", what, w)
		}
		if n := w.k.Writes() - before; n != 0 {
			t.Errorf("%s: %d writes to the kernel\n%s", what, n, w)
		}
	}
	untouched("the same again", func() scheduler.Result { return w.apply(true, story...) })
	lookAll := func() scheduler.Result {
		r, err := w.s.Apply(t.Context(), scheduler.Txn{LookAll: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	untouched("a look at all", lookAll)
	w.stop()
	w.start()
	untouched("a restart", func() scheduler.Result { return w.apply(true, story...) })
	untouched("another look at all", lookAll)
	w.await(scheduler.Observed, "address/lo-blue/127.0.0.1/8", "address/lo-blue/::1/128")

	blue := &netlinktest.Namespace{Path: w.dir + "/blue"}
	for _, harm := range []string{
		"link set dev eth0 down", "addr del 10.0.0.2/24 dev eth0", "addr add 10.7.7.7/24 dev eth0", "route del default", "link del dev eth0",
	} {
		blue.IP(t, harm)
		w.ip("addr show dev eth0", "state UP", "10.0.0.2/24", "-10.7.7.7")
		w.ip("route show", "default via 10.0.0.1")
		w.await(scheduler.Configured, story...)
	}

	// The master goes and comes.
	w.apply(false, `interface/br0`)
	w.await(scheduler.Pending, "interface/port", "interface/web", "route/default")
	w.apply(false, story[1])
	w.await(scheduler.Configured, story...)

	// Both sides change while the agent is away.
	w.stop()
	blue.IP(t, "addr add 10.0.5.5/24 dev eth0")
	w.own.IP(t, "link del dev br0")
	w.start()
	w.apply(true, append([]string{
		`interface/web {"namespace":{"netns":"blue"},"host_name":"eth0","mtu":1300,"veth":{"peer":"port"},"addresses":["10.0.0.2/24"]}`,
	}, append(story[:3:3], story[7:9]...)...)...)
	w.await(scheduler.Configured, "netns/blue", "interface/br0", "interface/port", "interface/web", "route/default")
	w.await(scheduler.Pending, "route/default6")
	w.await(scheduler.Absent, "interface/mv", "route/hole", "interface/uplink")
	w.ip("addr show dev eth0", "mtu 1300", "10.0.0.2/24", "-10.0.5.5", "-fd00::2")
	w.ip("link show", "-mv")

	w.apply(true)
	if names := w.own.Names(t); len(names) != 2 { // what we found and what is at its other end
		t.Errorf("left %v\n%s", names, w)
	}
	if mtu := fmt.Sprint(w.own.Show(t, "eth9")["mtu"]); mtu != "1500" {
		t.Errorf("eth9 was not given back: mtu %s", mtu)
	}
	if left := w.ledger.Entries(""); len(left) != 0 {
		t.Errorf("the ledger still names\n%s", w.ledger.String())
	}
}

// TestManyAtOnce: what is needed by many is written and deleted in bulk, and
// our own echo causes no work.
func TestManyAtOnce(t *testing.T) {
	const pairs, nets = 100, 10
	w := newWorld(t)
	lines := []string{`interface/br0 {"bridge":{}}`}
	for i := range nets {
		lines = append(lines, fmt.Sprintf(`netns/n%d {}`, i))
	}
	for i := range pairs {
		lines = append(lines,
			fmt.Sprintf(`interface/p%d {"veth":{"peer":"w%d"},"master":"br0"}`, i, i),
			fmt.Sprintf(`interface/w%d {"namespace":{"netns":"n%d"},"veth":{"peer":"p%d"},"addresses":["10.0.0.%d/16"]}`, i, i%nets, i, i+1),
			fmt.Sprintf(`route/r%d {"interface":"w%d","destination":"10.1.%d.0/24"}`, i, i, i))
	}
	if r := w.apply(true, lines...); !r.OK() {
		t.Fatalf("not all is configured\n%s", w)
	}
	if n := w.ledger.Writes(); n > pairs/2 {
		t.Errorf("%d writes of the ledger for %d keys", n, len(lines))
	}
	// A pair is made, both ends are told what to accept, marked and set up: with address and route eight.
	if n := w.k.Writes(); n > 8*pairs+3*nets+10 {
		t.Errorf("%d writes to the kernel for %d keys", n, len(lines))
	}
	if r := w.apply(true); !r.OK() {
		t.Errorf("not all is gone\n%s", w)
	}
	if names := w.own.Names(t); len(names) != 0 {
		t.Errorf("left %v", names)
	}
}
