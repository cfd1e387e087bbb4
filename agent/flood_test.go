package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// observed counts, by namespace, how often the routes of a kernel are listed and how often
// one who watches is told that events were lost.
type observed struct {
	*hostKernel
	mu     sync.Mutex
	listed map[kernel.NS]int
	lost   map[kernel.NS]int
}

func (o *observed) count(of map[kernel.NS]int, ns kernel.NS) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of[ns]++
}

func (o *observed) counts() (listed, lost map[kernel.NS]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.listed), maps.Clone(o.lost)
}

func (o *observed) Routes(ns kernel.NS) ([]kernel.Route, error) {
	o.count(o.listed, ns)
	return o.Kernel.Routes(ns)
}

func (o *observed) Watch(ctx context.Context, f func(kernel.Event)) error {
	return o.Kernel.Watch(ctx, func(e kernel.Event) {
		if e.Lost {
			o.count(o.lost, e.NS)
		}
		f(e)
	})
}

// many of our own routes are in the way of the flood: a third is left alone, another is
// deleted, and the last has its place taken until the end.
const many = 300

func ours(i int) string { return fmt.Sprintf("10.200.%d.%d/32", i/250, i%250) }

// flood is somebody who changes the routes of a namespace as fast as he can.
type flood struct {
	ip      *exec.Cmd
	changes int
	foreign map[string]bool // which others' routes there are
}

// run goes on until it may end, and for 50,000 changes at least.
func (f *flood) run(mayEnd <-chan struct{}) error {
	in, err := f.ip.StdinPipe()
	if err == nil {
		err = f.ip.Start()
	}
	if err != nil {
		return err
	}
	do := func(what, to, more string) { fmt.Fprintln(in, "route", what, to, more); f.changes++ }
	for round := 0; ; round++ {
		for i := range 200 {
			to := fmt.Sprintf("10.%d.%d.0/24", i, round%32)
			if there := shown(to, netip.Addr{}); f.foreign[there] {
				do("del", to, "")
				delete(f.foreign, there)
			} else {
				do("add", to, "dev d proto static")
				f.foreign[there] = true
			}
		}
		i := round % (many / 3)
		do("del", ours(3*i+1), "")
		do("replace", ours(3*i+2), "dev d proto static")
		select {
		case <-mayEnd:
			if f.changes < 50_000 {
				continue
			}
			for i := range many / 3 {
				do("del", ours(3*i+2), "proto static")
			}
			_ = in.Close()
			_ = f.ip.Wait() // some of it was not to be done
			return nil
		default:
		}
	}
}

func shown(to string, by netip.Addr) string { return fmt.Sprintf("%s via %s", to, by) }

// TestFloodOfRoutes: while somebody changes 50,000 routes of a namespace, and far more events
// come than its socket can hold, what is wanted elsewhere is done meanwhile, and no other
// namespace's routes are listed for it. What the flood did to our own routes is found and put
// right; the routes of others stay as they are.
func TestFloodOfRoutes(t *testing.T) {
	const elsewhere = 30 // keys that are wanted while it lasts
	c := onMemory(t, "flood")
	dir := netlinktest.Dir(t)
	c.NetnsDir = dir
	own := netlinktest.New(t).Path
	open := func(o netlink.Options) *netlink.Kernel {
		o.OwnPath, o.NamedDir = own, dir
		k, err := netlink.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { k.Close() })
		return k
	}
	eyes := open(netlink.Options{})
	k := &observed{hostKernel: withPrograms(open(netlink.Options{ReceiveBuffer: 4096}), c), listed: map[kernel.NS]int{}, lost: map[kernel.NS]int{}}
	stop := runOn(t, c, k)
	defer stop()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(c.RunDir, "etcd.sock")}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	put := func(key, value string) {
		t.Helper()
		if _, err := etcd.Put(t.Context(), "/plumb/flood/config/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	ns := map[string]kernel.NS{}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"blue", "green", "still"} {
		path := filepath.Join(dir, name)
		netlinktest.Mount(t, path)
		if ns[name], err = eyes.Open(path); err != nil {
			t.Fatal(err)
		}
		put("interface/"+name, fmt.Sprintf(`{"namespace":{"netns":%q},"host_name":"d","bridge":{},"addresses":["192.0.2.1/24"]}`, name))
		put("route/"+name, fmt.Sprintf(`{"interface":%q,"destination":"198.51.100.0/24","gateway":"192.0.2.9"}`, name))
	}
	for i := range many {
		put(fmt.Sprintf("route/r%d", i), fmt.Sprintf(`{"interface":"blue","destination":%q,"gateway":"192.0.2.9"}`, ours(i)))
	}
	number := kernel.Protocol("flood")
	// routes are those of a namespace with a protocol, by their destination.
	routes := func(name string, protocol uint8) map[string]bool {
		t.Helper()
		all, err := eyes.Routes(ns[name])
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, r := range all {
			if r.Protocol == protocol {
				found[shown(r.Dst.String(), r.Gateway)] = true
			}
		}
		return found
	}
	way := netip.MustParseAddr("192.0.2.9")
	all := map[string]bool{shown("198.51.100.0/24", way): true}
	one := maps.Clone(all)
	for i := range many {
		all[shown(ours(i), way)] = true
	}
	netlinktest.Eventually(t, "the routes are built", func() bool {
		return maps.Equal(routes("blue", number), all) && maps.Equal(routes("green", number), one) && maps.Equal(routes("still", number), one)
	})
	api := client.New(filepath.Join(c.RunDir, "agent.sock"))
	defer api.Close()
	settled := func() {
		t.Helper()
		if w, err := api.Wait(t.Context(), &apiv1.WaitRequest{All: true, Timeout: durationpb.New(netlinktest.Patience)}); err != nil || w.Outcome != "met" {
			t.Fatalf("not all is configured: %v, %v", w, err)
		}
	}
	settled()
	listedBefore, lostBefore := k.counts()

	// The flood goes on until the keys elsewhere are there: they do not wait for its end.
	f := flood{ip: exec.Command("nsenter", "--net="+filepath.Join(dir, "blue"), "--", "ip", "-force", "-batch", "-"), foreign: map[string]bool{}}
	arrived, over := make(chan struct{}), make(chan error, 1)
	end := sync.OnceValue(func() error { close(arrived); return <-over })
	defer end()
	go func() { over <- f.run(arrived) }()
	var took []time.Duration
	for i := range elsewhere {
		to := fmt.Sprintf("203.0.113.%d/32", i)
		begin := time.Now()
		put(fmt.Sprintf("route/g%d", i), fmt.Sprintf(`{"interface":"green","destination":%q,"gateway":"192.0.2.9"}`, to))
		one[shown(to, way)] = true
		netlinktest.Eventually(t, to, func() bool { return maps.Equal(routes("green", number), one) })
		took = append(took, time.Since(begin))
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d changes", f.changes)
	slices.SortFunc(took, cmp.Compare[time.Duration])
	t.Logf("a key elsewhere, meanwhile: median %v, last %v", took[len(took)/2], took[len(took)-1])

	netlinktest.Eventually(t, "ours are repaired", func() bool { return maps.Equal(routes("blue", number), all) })
	settled()
	const static = 4
	if got := routes("blue", static); !maps.Equal(got, f.foreign) {
		t.Errorf("routes of others: %s", strings.Join(slices.Sorted(maps.Keys(got)), "\n"))
	}
	ns["own"] = eyes.Own()
	listed, lost := k.counts()
	for name, id := range ns {
		lists, losses := listed[id]-listedBefore[id], lost[id]-lostBefore[id]
		t.Logf("%s: routes listed %d times, %d losses told", name, lists, losses)
		if flooded := name == "blue"; flooded != (lists > 0) || flooded != (losses > 0) {
			t.Errorf("%s: that is not as it should be", name)
		}
	}
}
