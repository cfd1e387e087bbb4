package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

const (
	// writeTries is how often a write is tried that others keep crossing.
	writeTries = 5
	// chunk is how many changes go into one transaction with --chunked: a
	// cluster takes 128 unless told otherwise.
	chunk = 100
)

// Put implements the service.
func (s *Server) Put(ctx context.Context, r *apiv1.PutRequest) (*apiv1.ApplyResponse, error) {
	return s.Apply(ctx, &apiv1.ApplyRequest{
		Items: []*apiv1.Item{{Key: r.Key, Value: r.Value, Text: r.Text}},
		Force: r.Force, Wait: r.Wait, Timeout: r.Timeout,
	})
}

// Delete implements the service.
func (s *Server) Delete(ctx context.Context, r *apiv1.DeleteRequest) (*apiv1.ApplyResponse, error) {
	if len(r.Keys) == 0 {
		return nil, refuse("no keys are given")
	}
	return s.Apply(ctx, &apiv1.ApplyRequest{Delete: r.Keys, Wait: r.Wait, Timeout: r.Timeout})
}

// Apply implements the service.
func (s *Server) Apply(ctx context.Context, r *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
	ws, err := wishes(r.Items, r.Force)
	if err != nil {
		return nil, err
	}
	req := request{wishes: ws, deletes: r.Delete, set: r.Set, prune: r.Prune}
	if r.DryRun {
		return s.dryRun(ctx, req)
	}
	st, revision, err := s.write(ctx, req, r.Chunked)
	if err != nil {
		return nil, err
	}
	out := &apiv1.ApplyResponse{Outcome: "written", Revision: revision, Changes: st.report(), Notes: st.notes}
	if revision == 0 {
		out.Outcome = "unchanged"
	}
	if !r.Wait && !r.RevertOnFailure {
		return out, nil
	}
	waiting, cancel := limit(ctx, r.Timeout)
	defer cancel()
	err = s.follow(waiting, out, st)
	if r.RevertOnFailure && (err != nil || failed(out)) {
		notes, revertErr := s.revert(ctx, st)
		out.Notes = append(out.Notes, notes...)
		if err = errors.Join(err, revertErr); err == nil {
			out.Outcome = "reverted"
		}
	}
	if err != nil {
		return nil, fail(err)
	}
	return out, nil
}

func (s *Server) dryRun(ctx context.Context, req request) (*apiv1.ApplyResponse, error) {
	st, err := s.stage(ctx, req)
	if err != nil {
		return nil, err
	}
	p, err := s.Scheduler.Preview(ctx, s.txn(req.wishes, st.deletes))
	if err != nil {
		return nil, fail(err)
	}
	return &apiv1.ApplyResponse{Outcome: "planned", Changes: st.report(), Plan: plan(p), Notes: st.notes}, nil
}

// write brings a request into the store. It reads, compares and writes on
// condition that nothing moved meanwhile, and starts over if it did. The
// revision is 0 when nothing had to be written.
func (s *Server) write(ctx context.Context, req request, chunked bool) (st *staged, revision int64, err error) {
	for range writeTries {
		if st, err = s.stage(ctx, req); err != nil {
			return nil, 0, err
		}
		revision, err = s.commit(ctx, st, chunked)
		if !errors.Is(err, models.ErrStoreConflict) {
			return st, revision, fail(err)
		}
	}
	return nil, 0, fail(err)
}

// commit writes a stage, as one transaction or in chunks. In chunks the
// apply-sets go last: after a crash in between they still hold what they held,
// and running the same apply again completes it.
func (s *Server) commit(ctx context.Context, st *staged, chunked bool) (revision int64, err error) {
	all := st.pending()
	if len(all) == 0 {
		return 0, nil
	}
	size := len(all)
	if chunked {
		size = chunk
	}
	for part := range slices.Chunk(all, size) {
		writes := make([]models.Write, len(part))
		for i, c := range part {
			writes[i] = c.write()
		}
		if revision, err = s.Store.Write(ctx, writes); err != nil {
			if len(st.done) > 0 {
				err = fmt.Errorf("%d of %d changes were written: %w", len(st.done), len(all), err)
			}
			return 0, err
		}
		for _, c := range part {
			st.done = append(st.done, written{c, revision})
		}
	}
	return revision, nil
}

// follow waits until the touched keys are settled and tells how they stand.
func (s *Server) follow(ctx context.Context, out *apiv1.ApplyResponse, st *staged) error {
	deleted := map[scheduler.Key]bool{}
	for _, c := range st.changes {
		deleted[scheduler.Key(c.short())] = c.after == nil
	}
	keys := st.touched()
	if len(keys) == 0 {
		return nil
	}
	if out.Revision > 0 {
		if err := s.Store.Reached(ctx, out.Revision); err != nil && context.Cause(ctx) != errTimeUp {
			return err
		}
	} else {
		s.catchUp(ctx, keys)
	}
	all, met, err := s.await(ctx, keys, func(k scheduler.Status) bool {
		return settled(k) && (deleted[k.Key] || !gone(k))
	})
	if err != nil {
		return err
	}
	out.Keys = keyStatuses(all)
	switch {
	case !met:
		out.Outcome = "timed out"
	case slices.ContainsFunc(all, func(k scheduler.Status) bool { return !configuredOrGone(k) }):
		out.Outcome = "not configured"
	default:
		out.Outcome = "configured"
	}
	return nil
}
