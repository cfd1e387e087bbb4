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

// failed tells whether an apply did what --revert-on-failure is for. A pending
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

// revert writes back what stood in the store before. Keys that somebody else
// changed since are theirs now and stay. It is done also when the client has
// gone away.
func (s *Server) revert(ctx context.Context, st *staged) (notes []string, err error) {
	ctx, cancel := detached(ctx, revertTime)
	defer cancel()
	for range writeTries {
		var writes []models.Write
		writes, notes, err = s.unwrites(ctx, st.done)
		if err != nil || len(writes) == 0 {
			break
		}
		var revision int64
		revision, err = s.Store.Write(ctx, writes)
		if err == nil {
			return append(notes, s.unfollow(ctx, st, revision)...), nil
		}
		if !errors.Is(err, models.ErrStoreConflict) {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("the previous values could not be written back: %w", err)
	}
	return notes, err
}

// unwrites restore what was before, for the keys that still are as we left them.
func (s *Server) unwrites(ctx context.Context, done []written) (writes []models.Write, kept []string, err error) {
	for _, d := range done {
		now, err := s.Store.Get(ctx, d.key)
		if err != nil {
			return nil, nil, err
		}
		left := d.revision // where we left it
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
		if _, met, err := s.await(ctx, st.touched(), settled); met && err == nil {
			return nil
		}
	}
	return []string{fmt.Sprintf("the previous values are written back at revision %d, but not settled yet", revision)}
}
