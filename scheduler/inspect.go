package scheduler

import (
	"context"

	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// Inspect reads the world anew and tells how it compares with what is wanted;
// it changes nothing and repairs nothing. The statuses are those of the keys
// under the prefixes, each on its own, with what was found as Actual: drifted
// where the world is not as wanted, unknown where it could not be read. The
// reading is done by the caller's goroutine, one kind after another, with ctx. A
// read that fails is no error of Inspect: that is ctx.Err() or ErrStopped.
func (s *Scheduler) Inspect(ctx context.Context, prefixes ...Key) ([]Status, error) {
	var reads []*kind.Op
	if err := s.call(func(l *loop) { reads = l.explainer.Inspections(prefixes) }); err != nil {
		return nil, err
	}
	for _, o := range reads {
		kind.RunLook(ctx, o)
	}
	var out []Status
	err := s.call(func(l *loop) {
		found := map[Key]kind.Found{}
		failed := map[Key]error{}
		for _, o := range reads {
			for _, f := range o.Found {
				found[f.Key] = f
			}
			for k, err := range o.Unread {
				failed[k] = err
			}
			if o.Err != nil {
				failed[o.Kind.Prefix] = o.Err
			}
		}
		out = l.explainer.Inspected(prefixes, found, failed)
	})
	if err == nil {
		err = ctx.Err()
	}
	return out, err
}
