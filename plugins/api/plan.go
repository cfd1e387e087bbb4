package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// Plan implements the service.
func (s *Server) Plan(ctx context.Context, r *apiv1.PlanRequest) (*apiv1.PlanResponse, error) {
	ws, err := s.wishes(r.Items, false, "")
	if err != nil {
		return nil, err
	}
	out, err := s.dryRun(ctx, request{wishes: ws, deletes: r.Delete, set: r.Set, prune: r.Prune, vanish: r.Vanish, unread: r.Unread})
	if err != nil {
		return nil, err
	}
	out.Plan.Notes = out.Notes
	return out.Plan, nil
}

func (s *Server) dryRun(ctx context.Context, req request) (*apiv1.ApplyResponse, error) {
	st, err := s.stage(ctx, req)
	if err != nil {
		return nil, err
	}
	event := scheduler.Event{Unread: req.unread}
	if _, err := s.prefixes(ctx, req.unread); err != nil {
		return nil, err
	}
	if event.Vanish, err = s.prefixes(ctx, req.vanish); err != nil {
		return nil, err
	}
	p, err := s.Scheduler.WhatIf(ctx, event, scheduler.Event{Txn: s.txn(req.wishes, st.deletes)})
	if err != nil {
		return nil, fail(err)
	}
	out := plan(p)
	out.Request = req.message()
	if len(req.vanish)+len(req.unread) > 0 {
		out.Reads, out.Unsaved = nil, "it supposes that something happens on the live host"
	}
	st.notes = append(st.notes, s.enslaving(ctx, req, out.Steps)...)
	return &apiv1.ApplyResponse{Outcome: "planned", Changes: st.report(), Plan: out, Notes: st.notes}, nil
}

// enslaving names the objects of others that stop working because links join a master.
func (s *Server) enslaving(ctx context.Context, req request, steps []*apiv1.Step) []string {
	if s.Enslaving == nil {
		return nil
	}
	var keys []string
	for _, step := range steps {
		if strings.HasPrefix(step.Key, models.InterfaceKey("")) && step.Op != scheduler.OpDelete.String() {
			keys = append(keys, step.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	written := make(map[string]proto.Message, len(req.wishes))
	for _, w := range req.wishes {
		written[w.key] = w.message
	}
	return s.Enslaving(ctx, keys, func(key string) *models.Interface {
		message, ok := written[key]
		if !ok {
			st, _ := s.Scheduler.Get(ctx, scheduler.Key(key)) // else nothing is desired
			message, _ = st.Desired.(proto.Message)
		}
		v, _ := message.(*models.Interface)
		return v
	})
}

// message is the request as a plan keeps it.
func (r request) message() *apiv1.PlanRequest {
	out := &apiv1.PlanRequest{Delete: r.deletes, Set: r.set, Prune: r.prune, Vanish: r.vanish, Unread: r.unread}
	for _, w := range r.wishes {
		out.Items = append(out.Items, &apiv1.Item{Key: w.key, Text: string(w.text)})
	}
	return out
}

// saved is the part of a plan by which it is known again.
func saved(p *apiv1.PlanResponse) scheduler.Base {
	b := scheduler.SavedBase{Sum: p.Base}
	for _, r := range p.Reads {
		b.Reads = append(b.Reads, scheduler.Read{Key: scheduler.Key(r.Key), Digest: r.Digest})
	}
	return b.Load()
}

// applyPlan executes a plan that was made before, or refuses. Intent goes
// through the store; so what the plan was made on is compared, the scheduler is
// told to expect the plan from the source of the store, and then the change is
// written on condition that nothing in the store moved.
func (s *Server) applyPlan(ctx context.Context, r *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
	req, err := s.plannedRequest(r)
	if err != nil {
		return nil, err
	}
	st, err := s.stage(ctx, req)
	if err != nil {
		return nil, err
	}
	t, at, err := s.planAgain(ctx, req, st, r.Plan)
	if err != nil {
		return nil, err
	}
	expected := &expectation{s.Scheduler.Expect(t), at}
	defer expected.Forget()
	revision, err := s.commitTrial(ctx, r, st)
	switch {
	case errors.Is(err, models.ErrStoreConflict):
		return nil, notNow("%w: something else was written into the store; nothing was written; make a new plan", scheduler.ErrBaseMoved)
	case err != nil:
		return nil, fail(err)
	case revision == 0:
		return &apiv1.ApplyResponse{Outcome: "unchanged", Changes: st.report(), Notes: st.notes}, nil
	}
	out := &apiv1.ApplyResponse{Outcome: "written", Revision: revision, Changes: st.report(), Notes: st.notes}
	return s.finish(ctx, r, out, st, expected)
}

// plannedRequest is what a plan writes.
func (s *Server) plannedRequest(r *apiv1.ApplyRequest) (req request, err error) {
	p := r.Plan
	switch {
	case len(r.Items)+len(r.Delete) > 0 || r.Set != "" || r.Prune || r.DryRun || r.Force || r.Chunked:
		return req, refuse("what a plan writes is in the plan; give nothing else beside it but what concerns the waiting")
	case p.Unsaved != "":
		return req, refuse("the plan cannot be executed: %s", p.Unsaved)
	case p.Request == nil || p.Base == "":
		return req, refuse("this is no plan; make one with `agentctl plan -f PATH -o json`")
	case len(p.Request.Vanish)+len(p.Request.Unread) > 0:
		return req, refuse("the plan supposes that something happens on the live host; it cannot be executed")
	}
	ws, err := s.wishes(p.Request.Items, false, "")
	return request{wishes: ws, deletes: p.Request.Delete, set: p.Request.Set, prune: p.Request.Prune}, err
}

// expectation is a plan that is being executed, and as what step each of its operations
// is shown.
type expectation struct {
	Expected
	at map[int]uint32
}

// planAgain makes the plan anew and refuses if it is another one. It returns
// the transaction that will come out of the store, with its base.
func (s *Server) planAgain(ctx context.Context, req request, st *staged, p *apiv1.PlanResponse) (t scheduler.Txn, at map[int]uint32, err error) {
	newest := int64(0)
	for _, c := range st.changes {
		newest = max(newest, c.before.Revision)
	}
	if err := s.Store.Reached(ctx, newest); err != nil { // else the scheduler does not know yet what was compared
		return t, nil, fail(err)
	}
	all, err := s.Scheduler.WhatIf(ctx, scheduler.Event{Txn: s.txn(req.wishes, st.deletes)})
	if err != nil {
		return t, nil, fail(err)
	}
	if err := saved(p).Moved(all.Base); err != nil {
		return t, nil, notNow("%w; nothing was written; make a new plan", err)
	}
	t = s.txn(req.wishes, st.deletes)
	writes := st.writes()
	t.Want = slices.DeleteFunc(t.Want, func(c scheduler.Change) bool { return !writes[c.Key] })
	now, err := s.Scheduler.WhatIf(ctx, scheduler.Event{Txn: t})
	if err != nil {
		return t, nil, fail(err)
	}
	if !sameSteps(now, all) {
		return t, nil, notNow("%w: some of what the plan writes is in the store already; nothing was written; make a new plan", scheduler.ErrBaseMoved)
	}
	t.Base = now.Base
	_, at = steps(now)
	return t, at, nil
}

func sameSteps(a, b scheduler.Plan) bool {
	return slices.EqualFunc(a.Steps, b.Steps, func(x, y scheduler.Step) bool { return x.Op == y.Op && x.Key == y.Key })
}

// left notes where a plan was left.
func left(ctx context.Context, out *apiv1.ApplyResponse, expected *expectation, wait bool) {
	if !expected.Forget() {
		out.Notes = append(out.Notes, "the store was read anew meanwhile, so the change was made, but not as a plan")
		return
	}
	if !wait {
		return
	}
	if res, err := expected.Wait(ctx); err == nil && res.Deviation != nil {
		d := *res.Deviation
		if n, shown := expected.at[d.Step]; shown {
			d.Step = int(n)
		}
		out.Notes = append(out.Notes, fmt.Sprintf("the plan was %s; see `agentctl history %d`", strings.TrimSuffix(d.String(), "."), res.Seq))
	}
}
