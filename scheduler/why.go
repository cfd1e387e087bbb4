package scheduler

import (
	"context"
	"fmt"

	"github.com/plumb-net/plumb/scheduler/explain"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
)

// Why explains a key: how it stands, and below each missing need how the
// needed thing stands, down to the root. It names at most a hundred keys. The
// error is ErrUnknownKey for a key that is not wanted, not needed and not in the
// world, or ErrStopped; ctx is not looked at.
func (s *Scheduler) Why(ctx context.Context, k Key) (Cause, error) {
	var c Cause
	found := false
	err := s.call(func(l *loop) {
		n := l.G.Get(k)
		if n == nil {
			return
		}
		found = true
		l.NewPass()
		budget := explain.MaxCauses
		c = l.explainer.Why(n, map[*graph.Node]bool{}, &budget)
		c.Roots = l.explainer.Roots(n)
		c.Record = l.Hist.LastOf(k)
		if c.Record == nil {
			c.Record = l.Hist.Get(n.Cause)
		}
	})
	if c.Record != nil {
		c.Chain = s.hist.Chain(k, c.Record)
		if c.Status.State == Configured {
			c.Again = s.hist.Again(k, c.Record)
		}
	}
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", k, ErrUnknownKey)
	}
	return c, err
}
