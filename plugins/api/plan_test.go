package api_test

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/scheduler"
)

// keep writes a plan as agentctl does, and reads it again.
func keep(t *testing.T, p *apiv1.PlanResponse) *apiv1.PlanResponse {
	t.Helper()
	out := new(apiv1.PlanResponse)
	if err := protojson.Unmarshal(apiv1.JSON(p), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// savedPlan is one that was made for a host with br0, a route that leaves by
// it, and eth0.
func savedPlan(t *testing.T, r *real) (*client.Client, *apiv1.PlanResponse) {
	t.Helper()
	c := r.start()
	_, err := c.Apply(context.Background(), &apiv1.ApplyRequest{Wait: true, Items: []*apiv1.Item{
		item("interface/br0", `{"bridge":{}}`), item("route/r0", `{"interface":"br0","destination":"10.0.0.0/8"}`),
		item("interface/eth0", `{"dummy":{}}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Plan(context.Background(), &apiv1.PlanRequest{Set: "site", Items: []*apiv1.Item{
		item("interface/br0", `{"bridge":{},"mtu":1400}`), item("interface/eth0", `{"dummy":{}}`),
		item("route/r1", `{"interface":"eth0","destination":"10.1.0.0/16"}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c, keep(t, p)
}

// A plan that was kept is executed by the next agent too: exactly its steps.
func TestSavedPlan(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r := newReal(t)
		c, p := savedPlan(t, r)
		if restart {
			c = r.start()
		}
		out, err := c.Apply(context.Background(), &apiv1.ApplyRequest{Plan: p, Wait: true})
		if err != nil || out.Outcome != "configured" || len(out.Notes) > 0 {
			t.Fatalf("restart %v: %v, %v", restart, out, err)
		}
		all := r.s.History(scheduler.HistoryQuery{Key: "route/r1"})
		rec := all[len(all)-1]
		var planned, done []string
		for _, s := range p.Steps {
			planned = append(planned, s.Op+" "+s.Key)
		}
		for _, d := range rec.Done {
			done = append(done, d.Op.String()+" "+string(d.Key))
		}
		if got, want := strings.Join(planned, ", "), "create route/r1, replace interface/br0, replace route/r0"; got != want {
			t.Errorf("restart %v: planned is %s, want %s", restart, got, want)
		}
		want := "create route/r1, delete route/r0, delete interface/br0, create interface/br0, create route/r0"
		if got := strings.Join(done, ", "); got != want || rec.Deviation != nil {
			t.Errorf("restart %v: done was %s (%v), want %s", restart, got, rec.Deviation, want)
		}
		if kv, ok, _ := r.store.Get(context.Background(), "applyset/site"); !ok {
			t.Errorf("the apply-set was not written: %v", kv)
		}
		if _, err := c.Apply(context.Background(), &apiv1.ApplyRequest{Plan: p}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("a plan is executed once, and then: %v", err)
		}
	}
}

// What the plan was made on has moved: it is refused, names what moved, and
// nothing is written.
func TestSavedPlanMoved(t *testing.T) {
	for name, c := range map[string]struct {
		move func(t *testing.T, c *client.Client, r *real)
		want string
	}{
		"a value": {func(t *testing.T, c *client.Client, _ *real) {
			if _, err := c.Put(t.Context(), &apiv1.PutRequest{Key: "route/r0", Text: `{"interface":"br0","destination":"10.0.0.0/9"}`, Wait: true}); err != nil {
				t.Fatal(err)
			}
		}, "route/r0"},
		"a need": {func(t *testing.T, c *client.Client, _ *real) {
			if _, err := c.Delete(t.Context(), &apiv1.DeleteRequest{Keys: []string{"interface/eth0"}, Wait: true}); err != nil {
				t.Fatal(err)
			}
		}, "interface/eth0"},
		"a key that it makes": {func(t *testing.T, c *client.Client, _ *real) {
			if _, err := c.Put(t.Context(), &apiv1.PutRequest{Key: "route/r1", Text: `{"interface":"eth0","destination":"10.0.0.0/9"}`, Wait: true}); err != nil {
				t.Fatal(err)
			}
		}, "route/r1"},
		"the store, at the last moment": {func(t *testing.T, _ *client.Client, r *real) {
			r.store.Cross(func() {
				if _, err := r.store.Write(t.Context(), []models.Write{{Key: "config/route/r1", Value: []byte(`{}`)}}); err != nil {
					t.Error(err)
				}
			})
		}, "something else was written into the store"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReal(t)
			agent, p := savedPlan(t, r)
			c.move(t, agent, r)
			_, err := agent.Apply(context.Background(), &apiv1.ApplyRequest{Plan: p, Wait: true})
			if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if strings.Contains(r.store.String(), "1400") {
				t.Errorf("it was written:\n%s", r.store)
			}
		})
	}
}

// What has nothing to do with the plan may move.
func TestSavedPlanStands(t *testing.T) {
	r := newReal(t)
	c, p := savedPlan(t, r)
	if _, err := c.Put(context.Background(), &apiv1.PutRequest{Key: "interface/eth9", Text: `{"dummy":{}}`, Wait: true}); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Apply(context.Background(), &apiv1.ApplyRequest{Plan: p, Wait: true}); err != nil || out.Outcome != "configured" {
		t.Errorf("%v, %v", out, err)
	}
}

// Plans that cannot be executed say so.
func TestPlansThatAreNotExecuted(t *testing.T) {
	r := newReal(t)
	r.deaf = true
	c, p := savedPlan(t, r)
	if !strings.Contains(p.Unsaved, "codec") || len(p.Reads) > 0 {
		t.Errorf("values without a codec: %q", p.Unsaved)
	}
	whatIf, err := c.Plan(context.Background(), &apiv1.PlanRequest{Vanish: []string{"interface/eth0"}})
	if err != nil || len(whatIf.Steps) != 1 || whatIf.Unsaved == "" {
		t.Fatalf("a link vanishes: %v, %v", whatIf, err)
	}
	_, fine := savedPlan(t, newReal(t))
	for name, req := range map[string]*apiv1.ApplyRequest{
		"no codec": {Plan: p},
		"what if":  {Plan: keep(t, whatIf)},
		"nothing":  {Plan: &apiv1.PlanResponse{}},
		"more":     {Plan: fine, Prune: true},
	} {
		if _, err := c.Apply(context.Background(), req); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Plan(context.Background(), &apiv1.PlanRequest{Vanish: []string{"interface/eth7"}}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("what is not there vanishes: %v", err)
	}
	if _, err := c.Plan(context.Background(), &apiv1.PlanRequest{Unread: []string{"cable"}}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an unknown kind: %v", err)
	}
}
