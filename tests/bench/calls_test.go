package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// besideCalls bounds the slowest ADD beside callers, as a ratio to the slowest ADD beside goroutines
// that only compute.
const besideCalls = 2

// BenchmarkADDBesideCalls attaches and detaches a container while two callers repeat a call of the
// API with its largest input, legal or not, on a host with 5,000 routes. The floor is the same
// beside two goroutines of this process that compute: callers share the two processors as well.
func BenchmarkADDBesideCalls(b *testing.B) {
	h := newHost(b)
	h.fill(5000)
	box := netlinktest.New(b)
	adds := func() (took []time.Duration) {
		for range 20 {
			begin := time.Now()
			h.cni(b, "ADD", box)
			took = append(took, time.Since(begin))
			h.cni(b, "DEL", box)
		}
		return took
	}
	adds() // warm
	alone := adds()
	beside := func(call func(ctx context.Context)) []time.Duration {
		ctx, stop := context.WithCancel(context.Background())
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() {
				for ctx.Err() == nil {
					call(ctx)
				}
			})
		}
		defer callers.Wait()
		defer stop()
		return adds()
	}
	spin := beside(func(context.Context) {
		for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
		}
	})
	floor := slices.Max(spin)
	b.Logf("slowest ADD alone %.1f ms, beside computing %.1f ms", ms(slices.Max(alone)), ms(floor))
	for _, c := range h.calls() {
		done := 0
		var mu sync.Mutex
		took := beside(func(ctx context.Context) {
			c.call(ctx)
			mu.Lock()
			done++
			mu.Unlock()
		})
		slowest := slices.Max(took)
		verdict(b, fmt.Sprintf("%s (%d done): slowest ADD %.1f ms", c.name, done, ms(slowest)), float64(slowest)/float64(floor), besideCalls, "times")
	}
}

// fill wants a bridge and so many routes.
func (h *host) fill(routes int) {
	h.b.Helper()
	ready := h.follow("interface/br0", 1, "configured")
	h.write(put("interface/br0", `{"bridge":{},"addresses":["10.0.0.1/8"]}`))
	ready()
	for n := 0; n < routes; {
		var ops []clientv3.Op
		for ; n < routes && len(ops) < 100; n++ {
			ops = append(ops, put(fmt.Sprintf("route/r%d", n), fmt.Sprintf(`{"interface":"br0","destination":"20.%d.%d.0/24"}`, n>>8, n&255)))
		}
		h.write(ops...)
	}
	if _, err := h.api.Wait(context.Background(), &apiv1.WaitRequest{All: true}); err != nil {
		h.b.Fatal(err)
	}
}

type namedCall struct {
	name string
	call func(ctx context.Context)
}

// calls are those whose work grows with the request or with the number of keys. Their answers do
// not matter.
func (h *host) calls() []namedCall {
	items := func(n int, value string) (list []*apiv1.Item) {
		for i := range n {
			list = append(list, &apiv1.Item{Key: fmt.Sprintf("route/x%d", i), Text: value})
		}
		return list
	}
	const route = `{"interface":"br0","destination":"30.0.0.0/24"}`
	many, more, wrong := items(50_000, route), items(60_000, route), items(50_000, `{"interface":7}`)
	stream := func(ctx context.Context) {
		s, err := h.api.Watch(ctx, &apiv1.WatchRequest{})
		if err != nil {
			return
		}
		defer s.Close()
		for s.Receive() && !s.Msg().InSync {
		}
	}
	return []namedCall{
		{"Plan of 50,000 keys", func(ctx context.Context) { _, _ = h.api.Plan(ctx, &apiv1.PlanRequest{Items: many}) }},
		{"Plan of too many keys", func(ctx context.Context) { _, _ = h.api.Plan(ctx, &apiv1.PlanRequest{Items: more}) }},
		{"Plan of invalid values", func(ctx context.Context) { _, _ = h.api.Plan(ctx, &apiv1.PlanRequest{Items: wrong}) }},
		{"Plan without an interface", func(ctx context.Context) {
			_, _ = h.api.Plan(ctx, &apiv1.PlanRequest{Vanish: []string{"interface/br0"}})
		}},
		{"Apply of invalid values", func(ctx context.Context) { _, _ = h.api.Apply(ctx, &apiv1.ApplyRequest{Items: wrong}) }},
		{"Apply, only planned", func(ctx context.Context) { _, _ = h.api.Apply(ctx, &apiv1.ApplyRequest{Items: many, DryRun: true}) }},
		{"List", func(ctx context.Context) { _, _ = h.api.List(ctx, &apiv1.ListRequest{}) }},
		{"Watch until in sync", stream},
		{"Diff", func(ctx context.Context) { _, _ = h.api.Diff(ctx, &apiv1.DiffRequest{}) }},
		{"Graph", func(ctx context.Context) { _, _ = h.api.Graph(ctx, &apiv1.GraphRequest{}) }},
		{"Map", func(ctx context.Context) { _, _ = h.api.Map(ctx, &apiv1.MapRequest{}) }},
		{"History", func(ctx context.Context) { _, _ = h.api.History(ctx, &apiv1.HistoryRequest{}) }},
		{"Adopt", func(ctx context.Context) { _, _ = h.api.Adopt(ctx, &apiv1.AdoptRequest{}) }},
		{"ListKV", func(ctx context.Context) { _, _ = h.api.ListKV(ctx, &apiv1.ListKVRequest{}) }},
		{"Why", func(ctx context.Context) { _, _ = h.api.Why(ctx, &apiv1.WhyRequest{Key: "route/r1"}) }},
	}
}

// cni calls the agent for a container of a network with a pool.
func (h *host) cni(b *testing.B, command string, box *netlinktest.Namespace) {
	b.Helper()
	err := h.call(wire.Request{Inode: box.Inode,
		Args:   spec.Args{Command: command, ContainerID: "c1", Netns: box.Path, IfName: "eth0"},
		Config: json.RawMessage(`{"cniVersion":"1.1.0","name":"blue","type":"plumb-cni","pool":["172.30.0.0/24","fd62::/64"],"masquerade":true}`)})
	if err != nil {
		b.Fatalf("%s: %v", command, err)
	}
}

// call calls the agent as plumb-cni does.
func (h *host) call(r wire.Request) error {
	conn, err := net.Dial("unix", filepath.Join(h.dir, "run", "cni.sock"))
	if err != nil {
		return err
	}
	defer conn.Close()
	lines := wire.NewReader(conn)
	var hello wire.Hello
	if err := lines.Read(&hello); err != nil {
		return err
	}
	r.Protocol, r.Timeout = wire.Version, 30_000
	if err := wire.Write(conn, r); err != nil {
		return err
	}
	var a wire.Answer
	if err := lines.Read(&a); err != nil {
		return err
	}
	if a.Error != nil {
		return a.Error
	}
	return nil
}
