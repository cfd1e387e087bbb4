package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/confirm"
	"github.com/plumb-net/plumb/plugins/probe"
)

const (
	// minConfirm and maxConfirm bound how long a change may wait to be confirmed.
	minConfirm, maxConfirm = time.Second, 24 * time.Hour
	// maxProbes bounds the probes of a change: all are tried every second.
	maxProbes = 16
)

// Confirm implements the service.
func (s *Server) Confirm(_ context.Context, r *apiv1.ConfirmRequest) (*apiv1.ConfirmResponse, error) {
	t, err := s.trial(r.Name)
	if err != nil {
		return nil, err
	}
	if err := t.Confirm(); err != nil {
		return nil, notNow("%w", err)
	}
	return &apiv1.ConfirmResponse{Confirm: confirmation(t)}, nil
}

// Abort implements the service. It returns when the change is taken back, or when it is on
// this host and cannot be in the store.
func (s *Server) Abort(ctx context.Context, r *apiv1.AbortRequest) (*apiv1.AbortResponse, error) {
	if r.Name != "" {
		if held, err := s.held(r.Name); err != nil || len(held) > 0 {
			return s.abortHeld(ctx, held, err)
		}
	}
	t, err := s.trial(r.Name)
	if err != nil {
		return nil, err
	}
	t.Abort(who(ctx) + " aborted it")
	select {
	case <-ctx.Done():
		return nil, fail(ctx.Err())
	case <-t.Hindered():
	case <-t.Ended():
	}
	reason, notes := t.Reverted()
	if reason == "" {
		return nil, notNow("the change was confirmed meanwhile")
	}
	ctx, cancel := context.WithTimeout(ctx, revertTime)
	defer cancel()
	_, _, _ = s.await(ctx, t.Pending().Keys(), settled, withoutValues) // so that who looks next sees it
	return &apiv1.AbortResponse{Confirm: confirmation(t), Notes: notes}, nil
}

// abortHeld brings back into the store what was taken from it and is held back.
func (s *Server) abortHeld(ctx context.Context, held []*apiv1.Held, err error) (*apiv1.AbortResponse, error) {
	if err != nil {
		return nil, err
	}
	out, err := s.Undo(ctx, &apiv1.UndoRequest{Seq: held[0].Cause})
	if err != nil {
		return nil, err
	}
	return &apiv1.AbortResponse{Notes: append(out.Apply.Notes, fmt.Sprintf("transaction %d was undone", out.Seq))}, nil
}

// Extend implements the service.
func (s *Server) Extend(_ context.Context, r *apiv1.ExtendRequest) (*apiv1.ExtendResponse, error) {
	t, err := s.trial(r.Name)
	if err != nil {
		return nil, err
	}
	if d := r.By.AsDuration(); d < minConfirm || d > maxConfirm {
		return nil, refuse("a change may wait between %s and %s, not %s", minConfirm, maxConfirm, d)
	}
	if err := t.Extend(r.By.AsDuration()); err != nil {
		return nil, notNow("%w", err)
	}
	return &apiv1.ExtendResponse{Confirm: confirmation(t)}, nil
}

// trial is the change that waits to be confirmed.
func (s *Server) trial(name string) (*confirm.Trial, error) {
	if s.Confirms == nil {
		return nil, notNow("%w", confirm.ErrNone)
	}
	t, err := s.Confirms.Find(name)
	if err != nil {
		return nil, notNow("%w", err)
	}
	return t, nil
}

// confirmation is a change as it waits; nil for none.
func confirmation(t *confirm.Trial) *apiv1.Confirmation {
	if t == nil {
		return nil
	}
	p := t.Pending()
	return &apiv1.Confirmation{
		Name: p.Name, By: p.By, Message: p.Message, Keys: p.Keys(), Probes: p.Probes,
		Began: timestamppb.New(p.Began), Deadline: timestamppb.New(p.Deadline),
		Reverting: p.Reverting, Trouble: t.Trouble(),
	}
}

// checkConfirm refuses what cannot be asked of a change that has to be confirmed.
func (s *Server) checkConfirm(ctx context.Context, r *apiv1.ApplyRequest) error {
	switch {
	case r.Confirm == nil && len(r.Probes) > 0:
		return refuse("probes are for a change that has to be confirmed: add --confirm TIME")
	case r.Confirm == nil:
		return nil
	case r.Chunked:
		return refuse("a change that has to be confirmed is one transaction; leave out --chunked")
	case len(r.Probes) > maxProbes:
		return refuse("there may be %d probes, not %d", maxProbes, len(r.Probes))
	}
	if d := r.Confirm.AsDuration(); d < minConfirm || d > maxConfirm {
		return refuse("a change may wait between %s and %s to be confirmed, not %s", minConfirm, maxConfirm, d)
	}
	for _, text := range r.Probes {
		p, err := probe.Parse(text)
		if err != nil {
			return refuse("%w", err)
		}
		if p.Command { // with the rights of the agent
			if err := need(ctx, access.Admin, "a probe that runs a command"); err != nil {
				return err
			}
		}
	}
	if s.Confirms == nil {
		return notNow("this agent cannot take changes back")
	}
	return nil
}

// commitTrial is commit, for a change that has to be confirmed if that is asked: then it
// is written down before the store has any of it.
func (s *Server) commitTrial(ctx context.Context, r *apiv1.ApplyRequest, st *staged) (revision int64, err error) {
	pending := st.pending()
	if r.Confirm == nil || len(pending)+len(st.sets) == 0 {
		return s.commit(ctx, r, st, pending, r.Chunked)
	}
	now := s.Now()
	p := confirm.Pending{
		Name: fmt.Sprintf("apply-%s-%02x", now.Format("150405"), rand.N(256)), By: who(ctx), Message: r.Message,
		Began: now, Deadline: now.Add(r.Confirm.AsDuration()), Probes: r.Probes,
	}
	for _, c := range slices.Concat(pending, st.sets) {
		d := confirm.Change{Key: c.key, After: c.after}
		if c.before.Revision != 0 {
			d.Before = append([]byte{}, c.before.Value...)
		}
		p.Changes = append(p.Changes, d)
	}
	t, err := s.Confirms.Begin(p)
	if err != nil {
		return 0, notNow("%w", err)
	}
	revision, err = s.commit(ctx, r, st, pending, false)
	switch {
	case err == nil:
		t.Written(revision)
		st.trial = t
	case errors.Is(err, models.ErrStoreConflict), errors.Is(err, models.ErrStoreTooMuch):
		err = errors.Join(err, t.Forget())
	default: // nobody knows what came of it
		t.Abort(fmt.Sprintf("it could not be written: %v", err))
	}
	return revision, err
}

// probed waits until each probe of the change has succeeded, if it has any.
func probed(ctx context.Context, out *apiv1.ApplyResponse, t *confirm.Trial) error {
	select {
	case <-t.Probed():
		return nil
	case <-ctx.Done():
	}
	if !errors.Is(context.Cause(ctx), errTimeUp) {
		return ctx.Err()
	}
	out.Outcome = "timed out"
	return nil
}

// abort takes a change back that has to be confirmed.
func abort(ctx context.Context, out *apiv1.ApplyResponse, t *confirm.Trial) error {
	t.Abort("not all keys were configured")
	select {
	case <-t.Ended():
		return nil
	case <-t.Hindered():
		out.Notes = append(out.Notes, "the previous values count on this host; they are written into the store when it can be: "+t.Trouble())
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// noteEnd tells that the change was taken back while somebody waited.
func (s *Server) noteEnd(ctx context.Context, r *apiv1.ApplyRequest, out *apiv1.ApplyResponse, st *staged) {
	if st.trial == nil {
		return
	}
	reason, notes := st.trial.Reverted()
	if reason == "" {
		return
	}
	out.Outcome, out.Confirm = "reverted", confirmation(st.trial)
	out.Notes = append(append(out.Notes, reason), notes...)
	ctx, cancel := detached(ctx, revertTime)
	defer cancel()
	select {
	case <-st.trial.Ended():
	case <-st.trial.Hindered():
	case <-ctx.Done():
	}
	if all, _, err := s.await(ctx, st.touched(), settled, encoder(r.NoValues)); err == nil {
		out.Keys = all
	}
}

// untilEnd is a context that ends also when the change does, as if the time were up.
func untilEnd(ctx context.Context, t *confirm.Trial) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-t.Ended():
			cancel(errTimeUp)
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(nil); watching.Wait() }
}
