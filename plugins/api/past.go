package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// at returns what the targets select as it was at a time.
func (s *Server) at(ctx context.Context, t time.Time, targets []string) ([]scheduler.Status, error) {
	prefixes, err := s.prefixes(ctx, targets)
	if err != nil {
		return nil, err
	}
	all, err := s.Scheduler.At(ctx, t, prefixes...)
	if err != nil {
		return nil, fail(err)
	}
	for _, p := range prefixes {
		if !strings.HasSuffix(string(p), "/") && !has(all, p) {
			return nil, notFound("%s was not there at %s", p, t.UTC().Format(time.RFC3339Nano))
		}
	}
	return all, nil
}

func has(all []scheduler.Status, k scheduler.Key) bool {
	for _, st := range all {
		if st.Key == k {
			return true
		}
	}
	return false
}

// Changes implements the service.
func (s *Server) Changes(ctx context.Context, r *apiv1.ChangesRequest) (*apiv1.ChangesResponse, error) {
	if r.From == nil {
		return nil, refuse("say from when")
	}
	var to time.Time
	if r.To != nil {
		if to = r.To.AsTime(); to.Before(r.From.AsTime()) {
			return nil, refuse("from is after to")
		}
	}
	prefixes, err := s.prefixes(ctx, r.Targets)
	if err != nil {
		return nil, err
	}
	changes, err := s.Scheduler.Changes(ctx, r.From.AsTime(), to, prefixes...)
	if err != nil {
		return nil, fail(err)
	}
	return &apiv1.ChangesResponse{Changes: keyChanges(changes)}, nil
}

// Blame implements the service.
func (s *Server) Blame(ctx context.Context, r *apiv1.BlameRequest) (*apiv1.BlameResponse, error) {
	st, err := s.Scheduler.Get(ctx, scheduler.Key(r.Key))
	if err != nil && !errors.Is(err, scheduler.ErrUnknownKey) {
		return nil, fail(err)
	}
	b, err := s.Scheduler.Blame(ctx, scheduler.Key(r.Key))
	if errors.Is(err, scheduler.ErrUnknownKey) {
		return nil, s.unknownKey(ctx, r.Key)
	}
	if err != nil {
		return nil, fail(err)
	}
	out := &apiv1.BlameResponse{Key: r.Key, Asked: deed(b.Asked), Made: deed(b.Made), Since: timestamp(b.Since),
		Wanted: st.Desired != nil, There: st.Actual != nil}
	for i := range b.Failures {
		out.Failures = append(out.Failures, deed(&b.Failures[i]))
	}
	out.Written = s.written(ctx, r.Key)
	return out, nil
}
