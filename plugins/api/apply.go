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
	// chunkCount and chunkBytes bound one transaction with --chunked: unless
	// told otherwise a cluster takes 128 changes and 1.5 MiB.
	chunkCount = 100
	chunkBytes = 1 << 20
	// chunksAtOnce is how many transactions wait for the store together: while it makes one
	// durable it reads the next.
	chunksAtOnce = 3
)

// Put implements the service.
func (s *Server) Put(ctx context.Context, r *apiv1.PutRequest) (*apiv1.ApplyResponse, error) {
	return s.Apply(ctx, &apiv1.ApplyRequest{
		Items: []*apiv1.Item{{Key: r.Key, Value: r.Value, Text: r.Text}},
		Force: r.Force, Wait: r.Wait, Timeout: r.Timeout, Message: r.Message, Files: r.Files,
	})
}

// Delete implements the service.
func (s *Server) Delete(ctx context.Context, r *apiv1.DeleteRequest) (*apiv1.ApplyResponse, error) {
	if len(r.Keys) == 0 {
		return nil, refuse("no keys are given")
	}
	return s.Apply(ctx, &apiv1.ApplyRequest{Delete: r.Keys, Wait: r.Wait, Timeout: r.Timeout, Message: r.Message, Chunked: r.Chunked})
}

// Apply implements the service.
func (s *Server) Apply(ctx context.Context, r *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
	if err := errors.Join(s.checkConfirm(ctx, r), checkAuthor(r)); err != nil {
		return nil, err
	}
	if r.Plan != nil {
		return s.applyPlan(ctx, r)
	}
	ws, err := s.wishes(r.Items, r.Force, forceHint)
	if err != nil {
		return nil, err
	}
	req := request{wishes: ws, deletes: r.Delete, set: r.Set, prune: r.Prune}
	if r.DryRun {
		return s.dryRun(ctx, req)
	}
	// Only a plan needs the messages, and nobody the texts as they came; there may be many.
	for i := range ws {
		ws[i].message = nil
	}
	for _, item := range r.Items {
		item.Text, item.Value = "", nil
	}
	st, revision, err := s.write(ctx, r, req)
	if err != nil {
		return nil, err
	}
	r.Items = nil
	out := &apiv1.ApplyResponse{Outcome: "written", Revision: revision, Changes: st.report(), Notes: st.notes}
	if revision == 0 {
		out.Outcome = "unchanged"
	}
	return s.finish(ctx, r, out, st, nil)
}

// finish waits for what was written, and takes it back, if that is asked.
// expected is not nil if it is a plan.
func (s *Server) finish(ctx context.Context, r *apiv1.ApplyRequest, out *apiv1.ApplyResponse, st *staged, expected *expectation) (*apiv1.ApplyResponse, error) {
	out.Confirm = confirmation(st.trial)
	s.noteFrozen(out)
	s.noteHeld(ctx, out, st)
	wait := r.Wait || r.RevertOnFailure
	if !wait && expected == nil {
		return out, nil
	}
	waiting, cancel := limit(ctx, r.Timeout)
	defer cancel()
	if st.trial != nil {
		waiting, cancel = untilEnd(waiting, st.trial)
		defer cancel()
	}
	var err error
	if expected != nil {
		// The plan first: between its steps, a key that is being replaced is at rest.
		if err = s.Store.Reached(waiting, out.Revision); err == nil {
			left(waiting, out, expected, wait)
		}
	}
	if wait {
		if err = s.follow(waiting, r, out, st); err == nil && st.trial != nil {
			err = probed(waiting, out, st.trial)
		}
	}
	if r.RevertOnFailure && (err != nil || failed(out)) {
		err = errors.Join(err, s.revert(ctx, out, st))
	}
	if err != nil {
		return nil, fail(err)
	}
	if out.Outcome != "reverted" {
		s.notePaused(ctx, out)
	}
	s.noteEnd(ctx, r, out, st)
	return out, nil
}

// write brings a request into the store. It reads, compares and writes on
// condition that nothing moved meanwhile, and starts over if it did. The
// revision is 0 when nothing had to be written.
func (s *Server) write(ctx context.Context, r *apiv1.ApplyRequest, req request) (st *staged, revision int64, err error) {
	for range writeTries {
		if st, err = s.stage(ctx, req); err != nil {
			return nil, 0, err
		}
		revision, err = s.commitTrial(ctx, r, st)
		if !errors.Is(err, models.ErrStoreConflict) {
			return st, revision, fail(err)
		}
	}
	return nil, 0, fail(err)
}

// commit writes what is pending of a stage, as one transaction or in chunks. In chunks the
// apply-sets go last, when all else is written: after a crash in between they still hold what
// they held, and running the same apply again completes it.
func (s *Server) commit(ctx context.Context, r *apiv1.ApplyRequest, st *staged, pending []change, chunked bool) (revision int64, err error) {
	var parts [][]change
	ahead := 0 // of them go together, before the others
	switch {
	case len(pending)+len(st.sets) == 0:
		return 0, nil
	case !chunked:
		parts = [][]change{slices.Concat(pending, st.sets)}
	default: // only the last part is copied: there may be many
		parts = chunks(pending)
		ahead = max(len(parts)-1, 0)
		parts = append(parts[:ahead], chunks(slices.Concat(append(slices.Clone(parts[ahead:]), st.sets)...))...)
	}
	revisions, errs := make([]int64, len(parts)), make([]error, len(parts))
	write := func(i int) (more bool) {
		revisions[i], errs[i] = s.writePart(ctx, r, parts[i])
		if errs[i] == nil && chunked && !r.RevertOnFailure {
			letGo(parts[i])
		}
		return errs[i] == nil
	}
	several(ahead, chunksAtOnce, write)
	for i := ahead; i < len(parts) && first(errs) == nil && write(i); i++ {
	}
	for i, part := range parts {
		if revisions[i] > 0 {
			st.done = append(st.done, written{part, revisions[i]})
		}
	}
	switch err := first(errs); {
	case err == nil:
		return slices.Max(revisions), nil
	case len(st.done) > 0:
		return 0, fmt.Errorf("%d of %d transactions were written: %w", len(st.done), len(parts), err)
	case errors.Is(err, models.ErrStoreTooMuch) && !chunked && r.Plan == nil && r.Confirm == nil:
		return 0, fmt.Errorf("%w, or in several transactions with --chunked", err)
	default:
		return 0, err
	}
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// writePart writes changes in one transaction.
func (s *Server) writePart(ctx context.Context, r *apiv1.ApplyRequest, part []change) (revision int64, err error) {
	writes := make([]models.Write, len(part))
	for i, c := range part {
		writes[i] = c.write()
	}
	return s.Store.Write(ctx, s.signed(ctx, writes, r.Message, r.Files))
}

// letGo drops the values of keys that were created, which nobody asks for any more: there
// may be many.
func letGo(part []change) {
	for i, c := range part {
		if c.before.Revision == 0 && c.after != nil {
			part[i].after = somewhere
		}
	}
}

// somewhere is a value that is in the store.
var somewhere = []byte{}

// chunks cuts changes into what one transaction takes.
func chunks(all []change) (parts [][]change) {
	if len(all) == 0 {
		return nil
	}
	start, bytes := 0, 0
	for i, c := range all {
		size := len(c.key) + len(c.after)
		if i > start && (i-start == chunkCount || bytes+size > chunkBytes) {
			parts = append(parts, all[start:i])
			start, bytes = i, 0
		}
		bytes += size
	}
	return append(parts, all[start:])
}

// follow waits until the touched keys are settled and tells how they stand.
func (s *Server) follow(ctx context.Context, r *apiv1.ApplyRequest, out *apiv1.ApplyResponse, st *staged) error {
	deleted := map[scheduler.Key]bool{}
	for _, c := range st.changes {
		if c.after == nil {
			deleted[scheduler.Key(c.short())] = true
		}
	}
	keys := st.touched()
	if len(keys) == 0 {
		return nil
	}
	if out.Revision > 0 {
		if err := s.Store.Reached(ctx, out.Revision); err != nil && !errors.Is(context.Cause(ctx), errTimeUp) {
			return err
		}
	} else {
		s.catchUp(ctx, keys)
	}
	failing := map[scheduler.Key]bool{}
	all, met, err := s.await(ctx, keys, func(k scheduler.Status) bool {
		if delete(failing, k.Key); !configuredOrGone(k) {
			failing[k.Key] = true
		}
		return settled(k) && (deleted[k.Key] || !gone(k))
	}, encoder(r.NoValues))
	if err != nil {
		return err
	}
	out.Keys = all
	switch {
	case !met:
		out.Outcome = "timed out"
	case len(failing) > 0:
		out.Outcome = "not configured"
	default:
		out.Outcome = "configured"
	}
	return nil
}
