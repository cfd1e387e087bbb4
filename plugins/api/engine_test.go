package api_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/scheduler"
)

// objects are those of one kind: what was made, and nothing more.
type objects[V proto.Message] struct {
	mu   sync.Mutex // guards what follows
	made map[scheduler.Key]V
}

func (o *objects[V]) set(k scheduler.Key, v V, there bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made == nil {
		o.made = map[scheduler.Key]V{}
	}
	if delete(o.made, k); there {
		o.made[k] = v
	}
}

func (o *objects[V]) retrieve(_ context.Context, s scheduler.Scope[V, struct{}]) iter.Seq2[scheduler.Found[V, struct{}], error] {
	return func(yield func(scheduler.Found[V, struct{}], error) bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for k, v := range o.made {
			if !yield(scheduler.Found[V, struct{}]{Key: k, Value: v}, nil) {
				return
			}
		}
	}
}

// descriptor of a kind whose objects live in memory.
func descriptor[V proto.Message](name string, o *objects[V], needs func(scheduler.Key, V) []scheduler.Need) scheduler.Descriptor[V, struct{}] {
	return scheduler.Descriptor[V, struct{}]{
		Name: name, Prefix: scheduler.Key(name + "/"), Needs: needs,
		Create: func(_ context.Context, k scheduler.Key, v V) (struct{}, error) {
			o.set(k, v, true)
			return struct{}{}, nil
		},
		Delete: func(_ context.Context, k scheduler.Key, v V, _ struct{}) error {
			o.set(k, v, false)
			return nil
		},
		Equal:    func(_ scheduler.Key, a, b V) bool { return proto.Equal(a, b) },
		Retrieve: o.retrieve,
		Encode:   func(v V) ([]byte, error) { return models.Encode(v), nil },
		Decode:   func(b []byte) (V, error) { var v V; return v, errors.New("not needed") },
	}
}

// real is a host with a store and with interfaces and routes in memory, on
// which one agent after another runs.
type real struct {
	t      *testing.T
	store  *apitest.Store
	links  objects[*models.Interface]
	routes objects[*models.Route]
	deaf   bool // values of interfaces have no codec
	s      *scheduler.Scheduler
	stop   func()
}

func newReal(t *testing.T) *real {
	r := &real{t: t}
	r.store = apitest.NewStore(func(changes []models.Write) {
		t := scheduler.Txn{Source: "etcd"}
		for _, c := range changes {
			t.Want = append(t.Want, stored(c.Key, c.Value))
		}
		r.s.Submit(t)
	})
	return r
}

func stored(key string, value []byte) scheduler.Change {
	k := scheduler.Key(key)
	if value == nil {
		return scheduler.Withdraw(k)
	}
	msg, err := models.Decode(key, value)
	if err != nil {
		return scheduler.SetInvalid(k, err)
	}
	return scheduler.Set(k, msg)
}

// start runs an agent, after the one before has ended.
func (r *real) start() *client.Client {
	r.t.Helper()
	if r.stop != nil {
		r.stop()
	}
	r.s = scheduler.New(scheduler.Options{Sources: []string{"etcd"}, Policies: []scheduler.Policy{
		{Keys: "interface/told", Drift: scheduler.DriftAlert}, {Keys: "interface/free", Drift: scheduler.DriftIgnore},
		{Keys: "route/", Deletions: scheduler.Deletions{Most: 1}}}})
	onLink := func(_ scheduler.Key, v *models.Route) []scheduler.Need {
		return []scheduler.Need{scheduler.On(scheduler.Key(models.InterfaceKey(v.Interface)), "the interface that it leaves by")}
	}
	links, routes := descriptor("interface", &r.links, nil), descriptor("route", &r.routes, onLink)
	if r.deaf {
		links.Encode, links.Decode = nil, nil
	}
	if _, err := scheduler.Register(r.s, links); err != nil {
		r.t.Fatal(err)
	}
	if _, err := scheduler.Register(r.s, routes); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.s.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(r.stop)
	warm(r.t, r.s)
	all := scheduler.Txn{Source: "etcd", Complete: true}
	kvs, err := r.store.List(ctx, "config/")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, kv := range kvs {
		all.Want = append(all.Want, stored(kv.Key[len("config/"):], kv.Value))
	}
	if _, err := r.s.Apply(ctx, all); err != nil {
		r.t.Fatal(err)
	}
	return dial(r.t, apitest.Serve(r.t, api.Config{Scheduler: api.Engine(r.s), Store: r.store}))
}

// startReal serves a real scheduler with interfaces and routes in memory.
func startReal(t *testing.T) (*client.Client, *objects[*models.Interface]) {
	t.Helper()
	r := newReal(t)
	return r.start(), &r.links
}

// warm has both kinds read once: a key cannot settle before.
func warm(t *testing.T, s *scheduler.Scheduler) {
	t.Helper()
	link, route := scheduler.Key("interface/warm"), scheduler.Key("route/warm")
	for _, want := range [][]scheduler.Change{
		{scheduler.Set(link, &models.Interface{}), scheduler.Set(route, &models.Route{Interface: "warm"})},
		{scheduler.Withdraw(link), scheduler.Withdraw(route)},
	} {
		if _, err := s.Apply(t.Context(), scheduler.Txn{Source: "etcd", Complete: true, Want: want}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRealScheduler goes once through everything that depends on how the
// scheduler behaves.
func TestRealScheduler(t *testing.T) {
	c, links := startReal(t)
	ctx := context.Background()
	check := func(what string, err error, ok bool, got any) {
		t.Helper()
		if err != nil || !ok {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	route := &apiv1.PutRequest{Key: "route/r1", Text: `{"interface":"web","destination":"10.0.0.0/8"}`, Wait: true}
	link := &apiv1.PutRequest{Key: "interface/web", Text: `{"dummy":{}}`, Wait: true}

	plan, err := c.Plan(ctx, &apiv1.PlanRequest{Items: []*apiv1.Item{{Key: route.Key, Text: route.Text}, {Key: link.Key, Text: link.Text}}})
	check("plan", err, len(plan.GetSteps()) == 2 && plan.Steps[0].Key == "interface/web" && plan.Steps[1].Key == "route/r1", plan)
	out, err := c.Put(ctx, route)
	check("put a route", err, out.GetOutcome() == "not configured" && out.Keys[0].State == "pending", out)
	why, err := c.Why(ctx, &apiv1.WhyRequest{Key: "route/r1"})
	check("why", err, len(why.GetBecause()) == 1 && why.Because[0].Status.Key == "interface/web", why)
	out, err = c.Put(ctx, link)
	check("put its interface", err, out.GetOutcome() == "configured", out)
	met, err := c.Wait(ctx, &apiv1.WaitRequest{All: true})
	check("wait for all", err, met.GetOutcome() == "met" && len(met.Keys) == 2, met)
	diff, err := c.Diff(ctx, &apiv1.DiffRequest{})
	check("diff", err, diff.GetOutcome() == "same", diff)
	graph, err := c.Graph(ctx, &apiv1.GraphRequest{Around: "route/r1"})
	check("graph", err, len(graph.GetNodes()) == 2 && len(graph.Edges) == 1 && graph.Edges[0].Satisfied, graph)
	hist, err := c.History(ctx, &apiv1.HistoryRequest{Key: "route/r1"})
	check("history", err, len(hist.GetRecords()) > 0, hist)

	links.set("interface/web", nil, false) // somebody takes it away
	sync, err := c.Resync(ctx, &apiv1.ResyncRequest{})
	check("resync", err, sync.GetOutcome() == "done" && len(sync.Record.GetDone()) > 0, sync)

	_, err = c.Pause(ctx, &apiv1.PauseRequest{Target: "interface", Reason: "freeze"})
	check("pause", err, true, nil)
	st, err := c.Get(ctx, &apiv1.GetRequest{Key: "interface/web"})
	check("paused", err, st.GetState() == "paused", st)
	out, err = c.Delete(ctx, &apiv1.DeleteRequest{Keys: []string{"interface/web"}, Wait: true})
	check("delete what is paused", err, out.GetOutcome() == "not configured" && out.Keys[0].State == "leftover" &&
		slices.Equal(out.Notes, []string{"interface/ is paused: nothing of it is removed until `agentctl resume interface`"}), out)
	out, err = c.Put(ctx, link)
	check("put what is paused", err, out.GetOutcome() == "not configured" && out.Keys[0].State == "paused" && len(out.Notes) == 0, out)
	_, err = c.Resume(ctx, &apiv1.ResumeRequest{Target: "interface"})
	check("resume", err, true, nil)

	out, err = c.Put(ctx, &apiv1.PutRequest{Key: "interface/bad", Text: `{}`, Force: true, Wait: true})
	check("an invalid value", err, out.GetOutcome() == "not configured" && out.Keys[0].State == "invalid", out)
	out, err = c.Delete(ctx, &apiv1.DeleteRequest{Keys: []string{"interface/web", "route/r1", "interface/bad"}, Wait: true})
	check("delete", err, out.GetOutcome() == "configured", out)
	met, err = c.Wait(ctx, &apiv1.WaitRequest{Keys: []string{"interface/web"}, For: "gone"})
	check("gone", err, met.GetOutcome() == "met", met)
	if _, err = c.Get(ctx, &apiv1.GetRequest{Key: "interface/web"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a deleted key: %v", err)
	}
	list, err := c.List(ctx, &apiv1.ListRequest{})
	check("nothing left", err, len(list.GetKeys()) == 0, list)
}

// TestHeldBackIsNotPaused: what is held back is noted with what lets it go, which is not resume.
func TestHeldBackIsNotPaused(t *testing.T) {
	c, _ := startReal(t)
	ctx := context.Background()
	keys := []string{"interface/web", "route/r1", "route/r2"}
	for i, text := range []string{`{"dummy":{}}`, `{"interface":"web","destination":"10.0.0.0/8"}`, `{"interface":"web","destination":"10.0.0.0/9"}`} {
		if _, err := c.Put(ctx, &apiv1.PutRequest{Key: keys[i], Text: text, Wait: true}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := c.Delete(ctx, &apiv1.DeleteRequest{Keys: keys[1:], Wait: true})
	want := []string{"nothing is removed: held-1 is held back, since 2 of 2 route would go, and 1 may; if that is meant: agentctl release held-1"}
	if err != nil || out.Outcome != "not configured" || !slices.Equal(out.Notes, want) {
		t.Errorf("got %v, %v", out, err)
	}
	out, err = c.Delete(ctx, &apiv1.DeleteRequest{Keys: keys[1:], Wait: true})
	if err != nil || out.Outcome != "not configured" || len(out.Notes) > 0 {
		t.Errorf("once more: %v, %v", out, err)
	}
	why, err := c.Why(ctx, &apiv1.WhyRequest{Key: keys[1]})
	if err != nil || len(why.Roots) != 1 || !strings.Contains(why.Roots[0].Advice, "agentctl release held-1") || strings.Contains(why.Roots[0].Advice, "resume") {
		t.Errorf("why: %v, %v", why, err)
	}
}

// What a policy lets others change is listed and does not count as a
// difference.
func TestDiffAndPolicies(t *testing.T) {
	c, links := startReal(t)
	ctx := t.Context()
	for _, key := range []string{"interface/told", "interface/free", "interface/other"} {
		if _, err := c.Put(ctx, &apiv1.PutRequest{Key: key, Text: `{"dummy":{}}`, Wait: true}); err != nil {
			t.Fatal(err)
		}
	}
	links.set("interface/told", &models.Interface{Mtu: 1280}, true)
	links.set("interface/free", &models.Interface{Mtu: 1280}, true)
	diff, err := c.Diff(ctx, &apiv1.DiffRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(diff.Differences) != 2 || diff.Outcome != "same" {
		t.Errorf("diff is %s: %v", diff.Outcome, diff.Differences)
	}
	for _, d := range diff.Differences {
		want := map[string]string{"interface/told": "drifted", "interface/free": "configured"}[d.Key]
		if d.State != want || !d.Excluded || d.Op != "" || len(d.Fields) == 0 {
			t.Errorf("%v, want it %s", d, want)
		}
	}
	links.set("interface/other", &models.Interface{Mtu: 1280}, true)
	if diff, err = c.Diff(ctx, &apiv1.DiffRequest{}); err != nil || diff.Outcome != "differs" {
		t.Errorf("a key without a policy: %v, %v", diff, err)
	}
}
