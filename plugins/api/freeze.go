package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// Freeze implements the service.
func (s *Server) Freeze(ctx context.Context, r *apiv1.FreezeRequest) (*apiv1.FreezeResponse, error) {
	d := r.For.AsDuration()
	switch {
	case s.Freezer == nil:
		return nil, notNow("this agent cannot be frozen")
	case strings.TrimSpace(r.Message) == "":
		return nil, refuse("a freeze needs a reason, for whoever finds it: -m TEXT")
	case d < 0:
		return nil, refuse("a freeze of %s is over before it begins", d)
	}
	f := Freeze{By: who(ctx), Message: r.Message, Since: s.Now()}
	if d > 0 {
		f.Until = f.Since.Add(d)
	}
	if err := s.Freezer.Freeze(f); err != nil {
		return nil, fail(err)
	}
	return &apiv1.FreezeResponse{Freeze: freeze(&f)}, nil
}

// Unfreeze implements the service.
func (s *Server) Unfreeze(_ context.Context, _ *apiv1.UnfreezeRequest) (*apiv1.UnfreezeResponse, error) {
	if s.Freezer == nil {
		return nil, notNow("nothing is frozen")
	}
	f, err := s.Freezer.Unfreeze()
	switch {
	case err != nil:
		return nil, fail(err)
	case f == nil:
		return nil, notNow("nothing is frozen")
	}
	return &apiv1.UnfreezeResponse{Freeze: freeze(f)}, nil
}

func freeze(f *Freeze) *apiv1.Freeze {
	if f == nil {
		return nil
	}
	return &apiv1.Freeze{By: f.By, Message: f.Message, Since: timestamp(f.Since), Until: timestamp(f.Until)}
}

// Release implements the service.
func (s *Server) Release(_ context.Context, r *apiv1.ReleaseRequest) (*apiv1.ReleaseResponse, error) {
	held, err := s.held(r.Id)
	if err != nil {
		return nil, err
	}
	switch err := s.Scheduler.Release(r.Id); {
	case errors.Is(err, scheduler.ErrNotHeldBack) && r.Id != "":
		return nil, notNow("nothing is held back as %s; see `agentctl status`", r.Id)
	case errors.Is(err, scheduler.ErrNotHeldBack):
		return nil, notNow("nothing is held back")
	case err != nil:
		return nil, fail(err)
	}
	return &apiv1.ReleaseResponse{Released: held}, nil
}

// noteFrozen tells who wrote something that nothing comes of it for now.
func (s *Server) noteFrozen(out *apiv1.ApplyResponse) {
	if s.Freezer == nil || out.Revision == 0 {
		return
	}
	f := s.Freezer.Frozen()
	if f == nil {
		return
	}
	note := "nothing is done to the network until `agentctl unfreeze`"
	if !f.Until.IsZero() {
		note += " or " + f.Until.UTC().Format(time.RFC3339)
	}
	if note += ": " + f.Message; f.By != "" {
		note += ", by " + f.By
	}
	out.Notes = append(out.Notes, note)
}

// heldTime is for how long it is waited whether deletions are held back.
const heldTime = 2 * time.Second

// noteHeld tells who asked for deletions that they are held back.
func (s *Server) noteHeld(ctx context.Context, out *apiv1.ApplyResponse, st *staged) {
	if out.Revision == 0 || len(st.deletes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heldTime)
	defer cancel()
	if s.Store.Reached(ctx, out.Revision) != nil {
		return // nobody can tell yet
	}
	all, err := s.held("")
	if err != nil {
		return
	}
	for _, h := range all {
		if slices.ContainsFunc(h.Keys, func(k string) bool { _, ours := slices.BinarySearch(st.deletes, k); return ours }) {
			out.Notes = append(out.Notes, fmt.Sprintf("nothing is removed: %s is held back, since %s; if that is meant: agentctl release %s", h.Id, h.Reason, h.Id))
		}
	}
}

// pausedAsked is of how many keys it is asked what they wait for.
const pausedAsked = 20

// notePaused tells who waited for deletions which pauses keep what was to go, and until when.
func (s *Server) notePaused(ctx context.Context, out *apiv1.ApplyResponse) {
	var told []scheduler.Key
	asked := 0
	for _, k := range out.Keys {
		if k.State != scheduler.Leftover.String() || slices.ContainsFunc(told, func(t scheduler.Key) bool { return holds(t, k.Key) }) {
			continue
		}
		if asked++; asked > pausedAsked {
			return
		}
		c, err := s.Scheduler.Why(ctx, scheduler.Key(k.Key))
		if err != nil {
			return
		}
		for _, r := range c.Roots {
			if r.Kind != scheduler.RootPaused || r.By == "" || r.HeldBack != "" || slices.Contains(told, r.By) {
				continue // who freezes all, or holds back too many, is named elsewhere
			}
			told = append(told, r.By)
			note := fmt.Sprintf("%s is paused: nothing of it is removed until `agentctl resume %s`", r.By, strings.TrimSuffix(string(r.By), "/"))
			if !r.Until.IsZero() {
				note += " or " + r.Until.UTC().Format(time.RFC3339)
			}
			out.Notes = append(out.Notes, note)
		}
	}
}

// holds reports whether a pause of a key, or of all below a prefix, holds a key.
func holds(target scheduler.Key, key string) bool {
	return key == string(target) || strings.HasSuffix(string(target), "/") && strings.HasPrefix(key, string(target))
}

// held is what is held back, all or under an ID.
func (s *Server) held(id string) (out []*apiv1.Held, err error) {
	all, err := s.Scheduler.HeldBack()
	if err != nil {
		return nil, fail(err)
	}
	for _, h := range all {
		if id != "" && h.ID != id {
			continue
		}
		m := &apiv1.Held{Id: h.ID, Reason: h.Reason, Count: uint32(len(h.Keys)), Since: timestamp(h.At), Cause: h.Cause}
		for _, k := range h.Keys {
			m.Keys = append(m.Keys, string(k))
		}
		out = append(out, m)
	}
	return out, nil
}
