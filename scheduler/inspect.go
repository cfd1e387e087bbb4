package scheduler

import (
	"context"
)

// Inspect reads the world anew and tells how it compares with what is wanted;
// it changes nothing and repairs nothing. The statuses are those of the keys
// under the prefixes, each on its own, with what was found as Actual: drifted
// where the world is not as wanted, unknown where it could not be read. The
// reading is done by the caller's goroutine, one kind after another, with ctx. A
// read that fails is no error of Inspect: that is ctx.Err() or ErrStopped.
func (s *Scheduler) Inspect(ctx context.Context, prefixes ...Key) ([]Status, error) {
	var reads []*op
	if err := s.call(func(l *loop) { reads = l.explainer.inspections(prefixes) }); err != nil {
		return nil, err
	}
	for _, o := range reads {
		runLook(ctx, o)
	}
	var out []Status
	err := s.call(func(l *loop) {
		found := map[Key]found{}
		failed := map[Key]error{}
		for _, o := range reads {
			for _, f := range o.found {
				found[f.key] = f
			}
			for k, err := range o.unread {
				failed[k] = err
			}
			if o.err != nil {
				failed[o.kind.Prefix] = o.err
			}
		}
		out = l.explainer.inspected(prefixes, found, failed)
	})
	if err == nil {
		err = ctx.Err()
	}
	return out, err
}
