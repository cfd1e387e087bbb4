package api

import (
	"bytes"
	"context"
	"math"
	"slices"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/netmap"
	"github.com/plumb-net/plumb/scheduler"
)

// Map implements the service.
func (s *Server) Map(ctx context.Context, r *apiv1.MapRequest) (*apiv1.MapResponse, error) {
	if r.Plan != nil {
		if r.At != nil || r.Since != nil {
			return nil, refuse("a plan is made on what is now, and compared with it; give it without at and since")
		}
		return s.mapOfPlan(ctx, r.Plan)
	}
	now, err := s.standing(ctx, r.At.AsTime(), r.At != nil)
	if err != nil {
		return nil, err
	}
	if r.Since == nil {
		return drawn(items(now)), nil
	}
	if r.At != nil && r.At.AsTime().Before(r.Since.AsTime()) {
		return nil, refuse("since is after at")
	}
	before, err := s.standing(ctx, r.Since.AsTime(), true)
	if err != nil {
		return nil, err
	}
	return drawn(compared(before, now)), nil
}

// standing is all keys, now or at a time.
func (s *Server) standing(ctx context.Context, at time.Time, past bool) ([]scheduler.Status, error) {
	if past {
		return s.at(ctx, at, nil)
	}
	return s.list(ctx)
}

func items(all []scheduler.Status) []netmap.Item {
	out := make([]netmap.Item, len(all))
	for i, st := range all {
		out[i].Status = st
	}
	return out
}

// compared marks what differs, and keeps what is no more. Statuses of the past are flat, so
// both are made so.
func compared(before, now []scheduler.Status) []netmap.Item {
	was := map[scheduler.Key]scheduler.Status{}
	for _, st := range flat(before) {
		was[st.Key] = st
	}
	out := items(flat(now))
	for i := range out {
		out[i].Derived = nil // they are in the list
		b, there := was[out[i].Key]
		delete(was, out[i].Key)
		switch {
		case !there:
			out[i].Mark = netmap.Created
		case inOrder(b.State) && !inOrder(out[i].State):
			out[i].Mark = netmap.Broken
		case b.State != out[i].State || !same(b.Desired, out[i].Desired):
			out[i].Mark = netmap.Changed
		}
	}
	for _, st := range flat(before) {
		if b, gone := was[st.Key]; gone {
			b.State, b.Derived = scheduler.Removed, nil
			out = append(out, netmap.Item{Status: b, Mark: netmap.Removed})
		}
	}
	return out
}

func inOrder(s scheduler.State) bool { return s == scheduler.Configured || s == scheduler.Observed }

func stateNamed(name string) (scheduler.State, bool) {
	i := slices.Index(states(), name)
	return scheduler.State(i), i >= 0
}

// same compares what is wanted as it is written down.
func same(a, b any) bool { return bytes.Equal(storedText(a), storedText(b)) }

// mapOfPlan draws what there would be, and what would go.
func (s *Server) mapOfPlan(ctx context.Context, r *apiv1.PlanRequest) (*apiv1.MapResponse, error) {
	p, err := s.Plan(ctx, r)
	if err != nil {
		return nil, err
	}
	now, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	out := drawn(planned(now, p))
	out.Plan = p
	return out, nil
}

// planned marks what a plan does. What it would make is drawn by the value that it writes.
func planned(now []scheduler.Status, p *apiv1.PlanResponse) []netmap.Item {
	out := items(flat(now))
	at := map[scheduler.Key]*netmap.Item{}
	for i := range out {
		out[i].Derived = nil
		at[out[i].Key] = &out[i]
	}
	var more []*netmap.Item
	item := func(key string) *netmap.Item {
		k := scheduler.Key(key)
		if at[k] == nil {
			at[k] = &netmap.Item{Status: scheduler.Status{Key: k}}
			more = append(more, at[k])
		}
		return at[k]
	}
	for _, it := range p.Request.GetItems() {
		if v, err := models.Decode(it.Key, []byte(it.Text)); err == nil {
			item(it.Key).Desired = v
		}
	}
	for _, step := range p.Steps {
		it := item(step.Key)
		switch step.Op {
		case "create":
			it.Mark = netmap.Created
		case "delete":
			it.Mark = netmap.Removed
		default:
			it.Mark = netmap.Changed
		}
		if it.Reason == "" {
			it.Reason = step.Reason
		}
	}
	for _, e := range p.Effects {
		it := item(e.Key)
		if state, ok := stateNamed(e.State); ok {
			it.State = state
		}
		it.Reason, it.Missing = e.Reason, nil
		for _, m := range e.Missing {
			it.Missing = append(it.Missing, scheduler.Missing{Need: m.Need, Why: m.Why})
		}
		switch {
		case e.Breaks:
			it.Mark = netmap.Broken
		case it.Mark == "" && e.Was == "absent":
			it.Mark = netmap.Created // it would wait
		case it.Mark == "" && (e.State == "removed" || e.State == "absent"):
			it.Mark = netmap.Removed
		}
	}
	for _, it := range more {
		out = append(out, *it)
	}
	return out
}

func drawn(items []netmap.Item) *apiv1.MapResponse {
	m := netmap.Draw(items)
	pixel := func(x float64) int32 { return int32(math.Round(x)) }
	out := &apiv1.MapResponse{Width: pixel(m.Width), Height: pixel(m.Height)}
	for _, b := range m.Boxes {
		out.Boxes = append(out.Boxes, &apiv1.MapBox{
			Id: b.ID, Parent: b.Parent, Key: b.Key, Kind: b.Kind, Title: b.Title, Detail: b.Detail, State: b.State, Reason: b.Reason,
			Mark: string(b.Mark), X: pixel(b.X), Y: pixel(b.Y), Width: pixel(b.Width), Height: pixel(b.Height),
		})
	}
	for _, l := range m.Lines {
		line := &apiv1.MapLine{From: l.From, To: l.To, Kind: l.Kind, Why: l.Why, Satisfied: l.Satisfied, Mark: string(l.Mark)}
		for _, p := range l.Points {
			line.Points = append(line.Points, pixel(p.X), pixel(p.Y))
		}
		out.Lines = append(out.Lines, line)
	}
	return out
}
