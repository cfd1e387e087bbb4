package announce_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/address"
	"github.com/plumb-net/plumb/descriptors/announce"
	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/namespace"
	"github.com/plumb-net/plumb/descriptors/netns"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

var (
	steps = flag.Int("steps", 24, "how many changes the campaign makes")
	seed  = flag.Uint64("seed", 0, "the seed of the campaign; 0: by chance")
)

// world is a scheduler with the kinds of links and addresses, and a bridge with three managed
// containers and two foreign hosts.
type world struct {
	t         *testing.T
	own       *netlinktest.Namespace
	dir       string // of named namespaces
	k         *netlink.Kernel
	s         *scheduler.Scheduler
	announcer *announce.Announcer
	peers     []*netlinktest.Namespace
	mac       map[int]string // the MACs in the intent
	life      [pods]int      // how often each container was attached
	vip       int            // the container that has the shared address

	mu    sync.Mutex // guards the fields below
	notes []string   // since the last successful reach
}

const pods = 3

// loud records announcements for failure messages.
type loud struct {
	*netlink.Kernel
	w *world
}

func (l loud) Announce(ns kernel.NS, as []kernel.Announcement) []error {
	began := time.Now()
	errs := l.Kernel.Announce(ns, as)
	l.w.note("announced %v in %v by %v: %v", as, ns, time.Since(began), errs)
	return errs
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, time.Now().Format("05.000000 ")+fmt.Sprintf(format, args...))
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, own: netlinktest.New(t), dir: netlinktest.Dir(t), mac: map[int]string{}}
	var err error
	if w.k, err = netlink.New(netlink.Options{OwnPath: w.own.Path, NamedDir: w.dir}); err != nil {
		t.Fatal(err)
	}
	w.s, w.announcer = scheduler.New(scheduler.Options{}), announce.New(loud{w.k, w}, nil)
	owner, names, self := kernel.NewOwner("test", "boot", &kernel.MemLedger{}, nil), &kernel.Names{}, &iface.Self{}
	refs := register(t, w.s, namespace.New(w.k, namespace.Options{}))
	nets := register(t, w.s, netns.New(w.k, owner, netns.Options{Dir: w.dir}))
	places := selector.NewResolver(w.k, selector.Views{NetNS: nets, Refs: refs, NamedDir: w.dir})
	links := register(t, w.s, iface.New(iface.Deps{Kernel: w.k, Owner: owner, Names: names, Places: places, Interfaces: self, Announcer: w.announcer}))
	self.Bind(links)
	register(t, w.s, address.New(address.Deps{Kernel: w.k, Owner: owner, Names: names, Interfaces: links, Announcer: w.announcer}))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.s.Run(ctx) })
	running.Go(func() {
		if err := w.announcer.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait(); w.k.Close() })

	w.apply(w.intent()...)
	for i := range 2 {
		p := netlinktest.New(t)
		w.peers = append(w.peers, p)
		w.own.IP(t, fmt.Sprintf("link add peer%d type veth peer name eth0 netns %s", i, p.Path))
		p.IP(t, "link set dev eth0 up")
		p.IP(t, fmt.Sprintf("addr add 10.0.0.10%d/24 dev eth0", i))
		p.IP(t, fmt.Sprintf("addr add fd00::10%d/64 dev eth0 nodad", i))
	}
	w.plug()
	// Neighbour entries stay valid for an hour.
	for _, p := range w.peers {
		remember(t, p, "eth0")
	}
	remember(t, w.own, "br0")
	return w
}

func remember(t *testing.T, n *netlinktest.Namespace, link string) {
	t.Helper()
	n.Sysctl(t, "ipv4/neigh/"+link+"/base_reachable_time_ms", "3600000")
	n.Sysctl(t, "ipv6/neigh/"+link+"/base_reachable_time_ms", "3600000")
}

func register[V, M any](t *testing.T, s *scheduler.Scheduler, d scheduler.Descriptor[V, M]) *scheduler.Kind[V, M] {
	t.Helper()
	k, err := scheduler.Register(s, d)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// plug adds the foreign hosts to the bridge.
func (w *world) plug() {
	for i := range w.peers {
		w.own.IP(w.t, fmt.Sprintf("link set dev peer%d master br0 up", i))
	}
	for i := range w.peers {
		w.own.Forwarding(w.t, fmt.Sprintf("peer%d", i))
	}
}

// intent returns the desired values, except those of some containers.
func (w *world) intent(without ...int) (lines []string) {
	lines = append(lines, `interface/br0 {"bridge":{},"addresses":["10.0.0.254/24","fd00::254/64"],"duplicate_detection":"none"}`)
	for i := range pods {
		if slices.Contains(without, i) {
			continue
		}
		// The end that creates the veth varies.
		name := fmt.Sprintf("%c-pod%d", 'a'+(w.life[i]+i)%26, w.life[i])
		port := fmt.Sprintf("m-port%d-%d", i, w.life[i])
		mac := ""
		if w.mac[i] != "" {
			mac = fmt.Sprintf(`"mac_address":%q,`, w.mac[i])
		}
		lines = append(lines,
			fmt.Sprintf(`netns/n%d {}`, i),
			fmt.Sprintf(`interface/%s {"veth":{"peer":"%s"},"master":"br0","host_name":"port%d"}`, port, w.pod(name, i), i),
			fmt.Sprintf(`interface/%s {"namespace":{"netns":"n%d"},"host_name":"eth0","veth":{"peer":%q},%s"addresses":["10.0.0.%d/24","fd00::%d/64"],"duplicate_detection":"none"}`,
				w.pod(name, i), i, port, mac, i+1, i+1))
		if i == w.vip {
			lines = append(lines, fmt.Sprintf(`address/vip4 {"interface":%q,"address":"10.0.0.50/32"}`, w.pod(name, i)),
				fmt.Sprintf(`address/vip6 {"interface":%q,"address":"fd00::50/128","duplicate_detection":"none"}`, w.pod(name, i)))
		}
	}
	return lines
}

func (w *world) pod(name string, i int) string {
	if (w.life[i]+i)%2 == 0 {
		return "z" + name
	}
	return name
}

// apply makes the lines the complete intent, and waits until all of it is configured.
func (w *world) apply(lines ...string) {
	w.t.Helper()
	txn := scheduler.Txn{Complete: true}
	for _, line := range lines {
		key, text, _ := strings.Cut(line, " ")
		v, err := models.Decode(key, []byte(text))
		if err != nil {
			w.t.Fatalf("%s: %v", key, err)
		}
		txn.Want = append(txn.Want, scheduler.Set(scheduler.Key(key), v))
	}
	w.run(txn)
}

// run applies a transaction and waits until all keys are configured.
func (w *world) run(txn scheduler.Txn) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), netlinktest.Patience)
	defer cancel()
	if _, err := w.s.Apply(ctx, txn); err != nil {
		w.t.Fatalf("apply: %v\n%s", err, w)
	}
	netlinktest.Eventually(w.t, "all is configured", func() bool {
		list, err := w.s.List(ctx, "netns/", "interface/", "address/")
		if err != nil {
			w.t.Fatal(err)
		}
		configured := 0
		for _, st := range list {
			switch {
			case st.Busy:
				return false
			case st.State == scheduler.Configured:
				configured++
			case st.State != scheduler.Observed && st.State != scheduler.Removed:
				return false
			}
		}
		return configured > 0
	})
}

func (w *world) String() string {
	var b strings.Builder
	list, _ := w.s.List(context.Background(), "netns/", "interface/", "address/")
	for _, st := range list {
		fmt.Fprintf(&b, "%-30s %-12s %s %v\n", st.Key, st.State, st.Reason, st.Missing)
	}
	return b.String()
}

// reach pings every address once from every host and container. No ping may be lost.
func (w *world) reach(after string) {
	w.t.Helper()
	hosts := map[*netlinktest.Namespace][]string{w.own: {"10.0.0.254", "fd00::254"}}
	for _, p := range w.peers {
		hosts[p] = nil
	}
	for i := range pods {
		has := []string{fmt.Sprintf("10.0.0.%d", i+1), fmt.Sprintf("fd00::%d", i+1)}
		if i == w.vip {
			has = append(has, "10.0.0.50", "fd00::50")
		}
		hosts[&netlinktest.Namespace{Path: fmt.Sprintf("%s/n%d", w.dir, i)}] = has
	}
	targets := slices.Concat(slices.Collect(maps.Values(hosts))...)
	w.note("pings begin")
	var all sync.WaitGroup
	for n, has := range hosts {
		all.Go(func() {
			for _, to := range targets {
				if slices.Contains(has, to) {
					continue
				}
				if out, err := n.Try("busybox", "ping", "-c1", "-W2", to); err != nil {
					w.note("lost: %s", to)
					w.t.Errorf("after %s: %s cannot reach %s: %v\n%s\n%s", after, n.IP(w.t, "-br addr"), to, err, out, n.IP(w.t, "neigh show")+w.own.IP(w.t, "neigh show")+w.own.IP(w.t, "-br link"))
				}
			}
		})
	}
	all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t.Failed() {
		w.t.Fatalf("%s\n%s", w, strings.Join(w.notes, "\n"))
	}
	w.notes = nil
}

// TestNeighborsReach: after any change of links and addresses, neighbours with cached entries
// reach an address of either family as soon as it is configured again.
//
//	go test ./descriptors/announce -run TestNeighborsReach -seed SEED -steps 24
func TestNeighborsReach(t *testing.T) {
	number := *seed
	if number == 0 {
		number = rand.Uint64()
	}
	t.Logf("-seed %d", number)
	r := rand.New(rand.NewPCG(number, 0))
	w := newWorld(t)
	w.reach("the start")
	look := func() { w.run(scheduler.Txn{LookAll: true}) }
	events := []struct {
		what string
		do   func(i int)
	}{
		{"the end of a cable in a container was deleted", func(i int) {
			(&netlinktest.Namespace{Path: fmt.Sprintf("%s/n%d", w.dir, i)}).IP(t, "link del dev eth0")
			look()
		}},
		{"the end of a cable at the bridge was deleted", func(i int) {
			w.own.IP(t, fmt.Sprintf("link del dev port%d", i))
			look()
		}},
		{"a port was taken out of the bridge", func(i int) {
			w.own.IP(t, fmt.Sprintf("link set dev port%d nomaster", i))
			look()
		}},
		{"a container was restarted", func(i int) {
			err := w.k.DeleteNamed(fmt.Sprintf("n%d", i))
			// After the unmount the agent may remove the file or create the namespace again before this
			// call removes the file.
			if err != nil && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			look()
		}},
		{"a container was detached and attached", func(i int) {
			w.apply(w.intent(i)...)
			w.life[i]++
			w.apply(w.intent()...)
		}},
		{"a container was attached in place of another", func(i int) {
			w.life[i]++
			w.apply(w.intent()...)
		}},
		{"the intent said another MAC", func(i int) {
			w.mac[i] = fmt.Sprintf("02:00:%02x:%02x:%02x:01", r.IntN(256), r.IntN(256), r.IntN(256))
			w.apply(w.intent()...)
		}},
		{"the intent said no MAC any more", func(i int) {
			delete(w.mac, i)
			w.apply(w.intent()...)
		}},
		{"a shared address was moved", func(i int) {
			w.vip = i
			w.apply(w.intent()...)
		}},
		{"somebody changed a MAC", func(i int) {
			before := w.announcer.Figures().Sent
			n := &netlinktest.Namespace{Path: fmt.Sprintf("%s/n%d", w.dir, i)}
			n.IP(t, fmt.Sprintf("link set dev eth0 address 02:01:%02x:%02x:%02x:01", r.IntN(256), r.IntN(256), r.IntN(256)))
			netlinktest.Eventually(t, "the addresses are announced", func() bool { return w.announcer.Figures().Sent >= before+2 })
			look()
		}},
		{"the bridge was deleted", func(int) {
			w.own.IP(t, "link del dev br0")
			look()
			w.plug()
		}},
	}
	for range *steps {
		e, i := events[r.IntN(len(events))], r.IntN(pods)
		what := fmt.Sprintf("%s (%d)", e.what, i)
		t.Log(what)
		e.do(i)
		w.reach(what)
	}
}
