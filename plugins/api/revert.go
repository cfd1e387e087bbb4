package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// revertTime bounds writing the previous values back and waiting for them.
const revertTime = 30 * time.Second

// failed reports whether an apply did what --revert-on-failure is for. A pending
// key is no failure: what it waits for may come at any time.
func failed(out *apiv1.ApplyResponse) bool {
	if out.Outcome == "timed out" {
		return true
	}
	for _, k := range out.Keys {
		if keyFailed(k) {
			return true
		}
	}
	return false
}

func keyFailed(k *apiv1.KeyStatus) bool {
	switch k.State {
	case "failed", "retrying", "invalid", "unimplemented":
		return true
	}
	for _, d := range k.Derived {
		if keyFailed(d) {
			return true
		}
	}
	return false
}

// revert brings back what was before the change. It is done also when the client has
// gone away.
func (s *Server) revert(ctx context.Context, out *apiv1.ApplyResponse, st *staged) error {
	ctx, cancel := detached(ctx, revertTime)
	defer cancel()
	if st.trial != nil {
		return abort(ctx, out, st.trial)
	}
	notes, err := s.writeBack(ctx, st)
	out.Notes = append(out.Notes, notes...)
	if err == nil {
		out.Outcome = "reverted"
	}
	return err
}

// writeBack writes what stood in the store before, in the same portions in
// which it was written. Keys that somebody else changed since are theirs now
// and stay.
func (s *Server) writeBack(ctx context.Context, st *staged) (notes []string, err error) {
	end, err := s.Scheduler.TakeBack(st.brought()...)
	if err != nil {
		return nil, err
	}
	defer end()
	var last int64
	for _, part := range st.done {
		revision, kept, err := s.unwrite(ctx, part)
		if err != nil {
			return notes, fmt.Errorf("the previous values could not be written back: %w", err)
		}
		notes = append(notes, kept...)
		last = max(last, revision)
	}
	if last > 0 {
		notes = append(notes, s.unfollow(ctx, st, last)...)
	}
	return notes, nil
}

// unwrite takes back one transaction. The revision is 0 if nothing was left to do.
func (s *Server) unwrite(ctx context.Context, part written) (revision int64, kept []string, err error) {
	for range writeTries {
		var writes []models.Write
		writes, kept, err = s.unwrites(ctx, part)
		if err != nil || len(writes) == 0 {
			return 0, kept, err
		}
		revision, err = s.Store.Write(ctx, s.signed(ctx, writes, "revert on failure", nil))
		if !errors.Is(err, models.ErrStoreConflict) {
			return revision, kept, err
		}
	}
	return 0, kept, err
}

// unwrites restore what was before, for the keys that still are as we left them.
func (s *Server) unwrites(ctx context.Context, part written) (writes []models.Write, kept []string, err error) {
	for _, d := range part.changes {
		now, _, err := s.Store.Get(ctx, d.key)
		if err != nil {
			return nil, nil, err
		}
		left := part.revision // where we left it
		if d.after == nil {
			left = 0
		}
		if now.Revision != left {
			kept = append(kept, d.short()+" was changed by somebody else meanwhile and stays")
			continue
		}
		w := models.Write{Key: d.key, If: &left}
		if d.before.Revision != 0 {
			w.Value = d.before.Value
		}
		writes = append(writes, w)
	}
	return writes, kept, nil
}

// unfollow waits until the previous values are settled again.
func (s *Server) unfollow(ctx context.Context, st *staged, revision int64) (notes []string) {
	if s.Store.Reached(ctx, revision) == nil {
		if _, met, err := s.await(ctx, st.touched(), settled, withoutValues); met && err == nil {
			return nil
		}
	}
	return []string{fmt.Sprintf("the previous values are written back at revision %d, but not settled yet", revision)}
}
