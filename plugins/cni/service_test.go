package cni_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/descriptors/ipam"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// memHost is a host of interfaces and routes in memory; it outlives agents.
type memHost struct {
	mu      sync.Mutex
	objects map[scheduler.Key]any
	broken  scheduler.Key // cannot be made
	stuck   atomic.Bool   // nothing can be removed
	hangs   atomic.Bool   // and one waits for a minute to hear it
	slow    atomic.Bool   // a reading takes a second
}

// kindOf makes a kind that puts its values onto the host.
func kindOf[V any](w *memHost, name string, needs func(v V) []scheduler.Need) scheduler.Descriptor[V, struct{}] {
	type found = scheduler.Found[V, struct{}]
	return scheduler.Descriptor[V, struct{}]{
		Name: name, Prefix: scheduler.Key(name + "/"),
		Needs: func(_ scheduler.Key, v V) []scheduler.Need { return needs(v) },
		Create: func(_ context.Context, k scheduler.Key, v V) (struct{}, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if k == w.broken {
				return struct{}{}, scheduler.Conflict("somebody else", errors.New("there is one already"))
			}
			w.objects[k] = v
			return struct{}{}, nil
		},
		Delete: func(_ context.Context, k scheduler.Key, _ V, _ struct{}) error {
			if w.hangs.Load() {
				time.Sleep(time.Minute)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.stuck.Load() {
				return errors.New("the kernel is busy")
			}
			delete(w.objects, k)
			return nil
		},
		Equal: func(scheduler.Key, V, V) bool { return true },
		Retrieve: func(_ context.Context, s scheduler.Scope[V, struct{}]) iter.Seq2[found, error] {
			return func(yield func(found, error) bool) {
				if w.slow.Load() {
					time.Sleep(time.Second)
				}
				w.mu.Lock()
				objects := maps.Clone(w.objects)
				w.mu.Unlock()
				for _, k := range slices.Sorted(maps.Keys(objects)) {
					if v, ok := objects[k].(V); ok && s.Has(k) && !yield(found{Key: k, Value: v}, nil) {
						return
					}
				}
			}
		},
	}
}

// node is an agent with the service, over a ledger and a host that outlive it.
type node struct {
	t        *testing.T
	kernel   *memHost
	host     *fakeHost
	disk     *fullDisk
	given    *kernel.MemLedger
	sched    *scheduler.Scheduler
	places   *scheduler.Kind[string, struct{}]
	inodes   []string // of the namespaces below /run/netns
	policies []scheduler.Policy
	// hold has the scheduler hold what people hold, also after a restart; nil: nothing.
	hold  func(*scheduler.Scheduler)
	named bool // a link has its name in its namespace alone; else all containers may share one
	*cni.Service
	stop func()
}

func newNode(t *testing.T) *node {
	n := &node{t: t, kernel: &memHost{objects: map[scheduler.Key]any{}}, host: newFakeHost(), disk: &fullDisk{}, given: &kernel.MemLedger{}, inodes: []string{"7"}}
	n.start()
	return n
}

func register[V, M any](n *node, d scheduler.Descriptor[V, M]) {
	n.t.Helper()
	_, err := scheduler.Register(n.sched, d)
	must(n.t, err)
}

func (n *node) start() {
	n.t.Helper()
	book := ipam.Open(n.given, nil)
	var taken []ipam.Taken
	store, unread := cni.OpenStore(n.disk)
	if n.host.forgot != "" {
		store.Doubt()
		for _, h := range store.Held() {
			taken = append(taken, ipam.Taken{Claim: h.Claim, Addr: h.Addr})
		}
	} else if len(unread) > 0 {
		n.t.Fatal(unread)
	}
	book.Found(taken)
	n.sched = scheduler.New(scheduler.Options{Sources: []string{"operator", cni.Source, "ledger"}, Policies: n.policies})
	register(n, podsOf(store))
	register(n, ipam.Pools(book))
	register(n, ipam.Leases(book))
	register(n, ipam.Claims(book))
	interfaces := kindOf(n.kernel, "interface", func(v *models.Interface) (needs []scheduler.Need) {
		if path := v.GetNamespace().GetPath(); path != "" {
			needs = append(needs, scheduler.On(scheduler.Key("place/"+strings.ReplaceAll(path, "/", "_")), "the namespace"))
		}
		if pod := v.GetNamespace().GetPod(); pod != "" {
			at := scheduler.On(scheduler.Key(models.NamespacePodKey(pod)), "the pod")
			needs = append(needs, scheduler.Project(at, func(v *models.NamespaceRef, _ struct{}) string { return v.GetPath() }))
		}
		for _, a := range v.GetAddresses() {
			if claim, claimed := strings.CutPrefix(a, models.ClaimPrefix); claimed {
				needs = append(needs, book.Need(claim))
			}
		}
		if v.GetMaster() != "" {
			needs = append(needs, scheduler.On(scheduler.Key(models.InterfaceKey(v.GetMaster())), "the bridge"))
		}
		return needs
	})
	if n.named {
		interfaces.Claims = func(k scheduler.Key, v *models.Interface) []scheduler.Claim {
			at := v.GetNamespace().GetPath() + "|" + v.EffectiveHostName(string(k))
			return []scheduler.Claim{{ID: at, What: "the name " + at}}
		}
	}
	interfaces.Derive = func(k scheduler.Key, v *models.Interface) []scheduler.Change {
		if !v.GetBridge().GetForward() {
			return nil
		}
		name := strings.TrimPrefix(string(k), "interface/")
		return []scheduler.Change{scheduler.Set(scheduler.Key(models.ForwardKey(name)), &models.Forward{Interface: name})}
	}
	register(n, interfaces)
	register(n, kindOf(n.kernel, "forward", func(v *models.Forward) []scheduler.Need {
		return []scheduler.Need{scheduler.On(scheduler.Key(models.InterfaceKey(v.GetInterface())), "the interface")}
	}))
	register(n, kindOf(n.kernel, "route", func(v *models.Route) []scheduler.Need {
		return []scheduler.Need{scheduler.On(scheduler.Key(models.InterfaceKey(v.GetInterface())), "the interface")}
	}))
	register(n, kindOf(n.kernel, "sysctl", func(v *models.Sysctl) []scheduler.Need {
		if v.GetInterface() == "" {
			return nil
		}
		return []scheduler.Need{scheduler.On(scheduler.Key(models.InterfaceKey(v.GetInterface())), "the interface")}
	}))
	register(n, kindOf(n.kernel, "nftables", func(*models.Nftables) []scheduler.Need { return nil }))
	places, err := scheduler.Register(n.sched, kindOf(n.kernel, "place", func(string) []scheduler.Need { return nil }))
	must(n.t, err)
	n.places = places
	if n.hold != nil {
		n.hold(n.sched)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	s := n.sched
	running.Go(func() { _ = s.Run(ctx) })
	before := scheduler.Txn{Source: "operator", Complete: true}
	for _, inode := range n.inodes {
		before.Want = append(before.Want, n.places.Set(scheduler.Key("place/_run_netns_"+inode), "x"))
	}
	s.Submit(before)
	n.host.book = book
	n.Service = cni.NewService(s, store, n.host, slog.New(slog.DiscardHandler))
	n.Service.Restore()
	if n.host.forgot == "" { // as the agent does
		s.Submit(scheduler.Txn{Source: "ledger", Complete: true})
	}
	service := n.Service
	running.Go(func() { _ = service.Run(ctx) })
	n.stop = func() { cancel(); running.Wait() }
	synctest.Wait()
}

func (n *node) restart() {
	n.stop()
	n.start()
}

func (n *node) call(ctx context.Context, command, container, netns, config string) wire.Answer {
	n.t.Helper()
	return n.callFor(ctx, command, container, "eth0", netns, config)
}

func (n *node) callFor(ctx context.Context, command, container, ifname, netns, config string) wire.Answer {
	n.t.Helper()
	if command == "CHECK" {
		config = withResult(n.t, n.Service, config, container, ifname)
	}
	inode, _ := n.host.Namespace(netns)
	c, wrong := cni.Parse(wire.Request{Protocol: 1, Config: json.RawMessage(config), Inode: inode,
		Args: spec.Args{Command: command, ContainerID: container, IfName: ifname, Netns: netns}})
	if wrong != nil {
		return wire.Answer{Error: wrong}
	}
	return n.Serve(ctx, c)
}

// withResult adds the result of the ADD to a configuration that has no prevResult, as runtimes do
// for CHECK.
func withResult(t *testing.T, s *cni.Service, config, container, ifname string) string {
	t.Helper()
	var fields map[string]any
	must(t, json.Unmarshal([]byte(config), &fields))
	if fields["prevResult"] != nil {
		return config
	}
	fields["prevResult"] = spec.Result{CNIVersion: spec.Latest}
	for _, a := range s.Attachments() {
		if a.Key.ContainerID == container && a.Key.IfName == ifname && a.Key.Network == fields["name"] && a.Result != nil {
			fields["prevResult"] = a.Result
		}
	}
	text, err := json.Marshal(fields)
	must(t, err)
	return string(text)
}

// show lists what is on the host and in the ledgers.
func (n *node) show() string {
	n.kernel.mu.Lock()
	defer n.kernel.mu.Unlock()
	var lines []string
	for k := range n.kernel.objects {
		if !strings.HasPrefix(string(k), "place/") {
			lines = append(lines, string(k))
		}
	}
	for _, e := range append(n.disk.Entries(""), n.given.Entries("")...) {
		if !strings.Contains(string(e.Value), "freed") {
			lines = append(lines, e.ID)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

const blue = `{"cniVersion":"1.1.0","name":"blue","pool":"10.62.0.0/29","bridge":"br-blue"}`

// in plays a test in a bubble, with an agent that is stopped at its end.
func in(t *testing.T, f func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		f(t, n)
		n.stop()
	})
}

// TestADDAndDEL: a network from one configuration; the last DEL leaves nothing,
// a repeated one succeeds.
func TestADDAndDEL(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue)
		if a.Error != nil {
			t.Fatal(a.Error)
		}
		text, _ := json.Marshal(a.Result)
		want := `{"cniVersion":"1.1.0","interfaces":[{"name":"br-blue","mac":"02:16:af:9c:a5:54"},{"name":"pv7a9ae503637b"},{"name":"eth0","mac":"02:7a:9a:e5:03:63","sandbox":"/run/netns/7"}],` +
			`"ips":[{"interface":2,"address":"10.62.0.2/29","gateway":"10.62.0.1"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.62.0.1"}]}`
		if string(text) != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
		one := n.show()
		if again := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue); again.Error == nil || again.Error.Code != spec.Exists || n.show() != one {
			t.Errorf("a second ADD: %v\n%s", again.Error, n.show())
		}
		if a := n.call(t.Context(), "ADD", "c2", "/run/netns/7", blue); a.Error != nil || a.Result.IPs[0].Address != "10.62.0.3/29" {
			t.Errorf("another container: %v", a)
		}
		for range 2 {
			if a := n.call(t.Context(), "DEL", "c2", "", blue); a.Error != nil || len(a.Warnings) > 0 {
				t.Errorf("%v", a)
			}
			if n.show() != one {
				t.Errorf("left\n%s\nwant\n%s", n.show(), one)
			}
		}
		if a := n.call(t.Context(), "DEL", "c1", "", blue); a.Error != nil || len(a.Warnings) > 0 {
			t.Errorf("%v", a)
		}
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestWaitsForWhatIsMissing: an ADD waits without asking again and again, and is
// answered as soon as it can be; at its limit it says what it waited for, and leaves
// nothing.
func TestWaitsForWhatIsMissing(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		answer := make(chan wire.Answer, 1)
		go func() { answer <- n.call(t.Context(), "ADD", "c1", "/run/netns/8", blue) }()
		time.Sleep(20 * time.Second)
		began := time.Now()
		n.sched.Submit(scheduler.Txn{Source: "operator", Want: []scheduler.Change{n.places.Set("place/_run_netns_8", "x")}})
		if a := <-answer; a.Error != nil || time.Since(began) > 0 {
			t.Errorf("%v after %s", a.Error, time.Since(began))
		}
		n.call(t.Context(), "DEL", "c1", "", blue)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		a := n.call(ctx, "ADD", "c2", "/run/netns/9", blue)
		if a.Error == nil || a.Error.Code != spec.TryLater || !strings.Contains(a.Error.Details, "needs place/_run_netns_9") {
			t.Errorf("at the limit: %v", a.Error)
		}
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestDeletedWhileWaiting: a DEL ends an ADD that waits, at once.
func TestDeletedWhileWaiting(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		answer := make(chan wire.Answer, 1)
		go func() { answer <- n.call(t.Context(), "ADD", "c1", "/run/netns/8", blue) }()
		synctest.Wait()
		began := time.Now()
		if a := n.call(t.Context(), "DEL", "c1", "", blue); a.Error != nil {
			t.Error(a.Error)
		}
		if a := <-answer; a.Error == nil || a.Error.Msg != cni.ErrDeleted.Error() || time.Since(began) > 0 {
			t.Errorf("%v after %s", a.Error, time.Since(began))
		}
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestLeftWhileWaiting: a runtime that leaves its ADD leaves nothing behind, on
// disk neither.
func TestLeftWhileWaiting(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		ctx, leave := context.WithCancel(t.Context())
		go n.call(ctx, "ADD", "c1", "/run/netns/8", blue)
		synctest.Wait()
		leave()
		synctest.Wait()
		if left := n.attached() + n.show(); left != "" {
			t.Errorf("left\n%s", left)
		}
	})
}

// TestCrashAnywhere: an agent that ends in the middle of an ADD or a DEL leaves
// nothing of it once the next one has begun; what was attached stays.
func TestCrashAnywhere(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue); a.Error != nil {
			t.Fatal(a.Error)
		}
		one := n.show()
		ctx, cancel := context.WithCancel(t.Context())
		go n.call(ctx, "ADD", "c2", "/run/netns/8", blue)
		synctest.Wait()
		if n.show() == one {
			t.Error("nothing was begun")
		}
		n.stop() // with the ADD half made
		n.start()
		cancel()
		synctest.Wait()
		if n.show() != one {
			t.Errorf("left\n%s\nwant\n%s", n.show(), one)
		}
		if a := n.call(t.Context(), "CHECK", "c1", "/run/netns/7", blue); a.Error != nil {
			t.Error(a.Error)
		}
	})
}

// TestCHECK: what somebody has removed is told. The scheduler mends it.
func TestCHECK(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		if a := n.call(t.Context(), "CHECK", "c1", "/run/netns/7", blue); a.Error == nil || a.Error.Code != spec.Broken {
			t.Errorf("nothing attached: %v", a.Error)
		}
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue); a.Error != nil {
			t.Fatal(a.Error)
		}
		key := scheduler.Key("interface/cni:blue:7a9ae503637bb214")
		n.kernel.mu.Lock()
		n.kernel.broken = key
		delete(n.kernel.objects, key)
		n.kernel.mu.Unlock()
		if a := n.call(t.Context(), "CHECK", "c1", "/run/netns/7", blue); a.Error == nil || !strings.Contains(a.Error.Details, string(key)) {
			t.Errorf("removed: %v", a.Error)
		}
	})
}

// TestCHECKComparesPrevResult: the result that the runtime has kept is that of the attachment.
// What plugins after ours have added is not judged.
func TestCHECKComparesPrevResult(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *spec.Result)
		want   string
	}{
		"equal":               {func(*spec.Result) {}, ""},
		"another plugin's":    {func(r *spec.Result) { r.Interfaces = append(r.Interfaces, spec.Interface{Name: "wg0"}) }, ""},
		"nothing":             {func(r *spec.Result) { *r = spec.Result{} }, "lacks the interface br-blue"},
		"no interface":        {func(r *spec.Result) { r.Interfaces[2].Name = "eth1" }, "lacks the interface eth0 in /run/netns/7"},
		"of another sandbox":  {func(r *spec.Result) { r.Interfaces[2].Sandbox = "/run/netns/8" }, "lacks the interface eth0 in /run/netns/7"},
		"no address":          {func(r *spec.Result) { r.IPs = nil }, "lacks the address 10.62.0.2/29 of eth0 in /run/netns/7"},
		"another address":     {func(r *spec.Result) { r.IPs[0].Address = "10.62.0.3/29" }, "lacks the address 10.62.0.2/29"},
		"one address more":    {func(r *spec.Result) { r.IPs = append(r.IPs, r.IPs[0]); r.IPs[1].Address = "10.62.0.3/29" }, "has the address 10.62.0.3/29 on eth0"},
		"on another link":     {func(r *spec.Result) { *r.IPs[0].Interface = 1 }, "lacks the address 10.62.0.2/29"},
		"another MAC address": {func(r *spec.Result) { r.Interfaces[2].Mac = "02:00:00:00:00:07" }, "the hardware address 02:00:00:00:00:07 for eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, n *node) {
				a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue)
				if a.Error != nil {
					t.Fatal(a.Error)
				}
				n.host.mac = a.Result.Interfaces[2].Mac
				text, err := json.Marshal(a.Result)
				must(t, err)
				var changed spec.Result
				must(t, json.Unmarshal(text, &changed))
				c.change(&changed)
				text, err = json.Marshal(changed)
				must(t, err)
				config := strings.Replace(blue, "{", `{"prevResult":`+string(text)+",", 1)
				switch a := n.call(t.Context(), "CHECK", "c1", "/run/netns/7", config); {
				case c.want == "" && a.Error != nil:
					t.Error(a.Error)
				case c.want != "" && (a.Error == nil || a.Error.Code != spec.Broken || !strings.Contains(a.Error.Details, c.want)):
					t.Errorf("got %v, want %s", a.Error, c.want)
				}
			})
		})
	}
}

// TestUnknownKeys: an ADD and a STATUS are refused for a key that nobody reads. What was
// attached by an earlier release, which ignored it, stays over a restart.
func TestUnknownKeys(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		odd := strings.Replace(blue, "{", `{"promiscMode":true,`, 1)
		for _, command := range []string{"ADD", "STATUS"} {
			if a := n.call(t.Context(), command, "c1", "/run/netns/7", odd); a.Error == nil || a.Error.Code != spec.Unsupported || !strings.Contains(a.Error.Details, "promiscMode") || n.show() != "" {
				t.Errorf("%s: %v\n%s", command, a.Error, n.show())
			}
		}
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue); a.Error != nil {
			t.Fatal(a.Error)
		}
		for _, e := range n.disk.Entries("attachment/") {
			e.Value = bytes.Replace(e.Value, []byte(`"config":{`), []byte(`"config":{"promiscMode":true,`), 1)
			must(t, n.disk.Add(e))
		}
		before := n.show()
		n.restart()
		if n.show() != before || len(n.Attachments()) != 1 || !bytes.Contains(n.Attachments()[0].Config, []byte("promiscMode")) {
			t.Errorf("after a restart\n%s\nbefore\n%s", n.show(), before)
		}
		if a := n.call(t.Context(), "CHECK", "c1", "/run/netns/7", odd); a.Error != nil {
			t.Error(a.Error)
		}
	})
}

// TestNameIsTaken: an ADD that cannot be is answered at once, and undone; the pool
// of a network is not changed beneath its attachments.
func TestNameIsTaken(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		n.kernel.broken = "interface/cni:blue:7a9ae503637bb214"
		began := time.Now()
		a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue)
		if a.Error == nil || !strings.Contains(a.Error.Details, "there is one already") || time.Since(began) > 0 {
			t.Errorf("%v after %s", a.Error, time.Since(began))
		}
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
		n.kernel.broken = ""
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue); a.Error != nil {
			t.Fatal(a.Error)
		}
		other := strings.Replace(blue, "10.62", "10.63", 1)
		if a := n.call(t.Context(), "ADD", "c2", "/run/netns/7", other); a.Error == nil || a.Error.Code != spec.BadConfig {
			t.Errorf("another pool: %v", a.Error)
		}
	})
}

// TestManyAtOnce: each gets an address of its own, and all are given back.
func TestManyAtOnce(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		large := strings.Replace(blue, "/29", "/24", 1)
		var all sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]bool{}
		for i := range 100 {
			all.Go(func() {
				a := n.call(t.Context(), "ADD", fmt.Sprint("c", i), "/run/netns/7", large)
				if a.Error != nil {
					t.Error(a.Error)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if seen[a.Result.IPs[0].Address] {
					t.Errorf("%s twice", a.Result.IPs[0].Address)
				}
				seen[a.Result.IPs[0].Address] = true
			})
		}
		all.Wait()
		before := n.show()
		n.restart()
		if n.show() != before {
			t.Error("a restart changed something")
		}
		for i := range 100 {
			all.Go(func() { n.call(t.Context(), "DEL", fmt.Sprint("c", i), "", large) })
		}
		all.Wait()
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}
