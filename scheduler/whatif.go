package scheduler

import (
	"context"

	"github.com/plumb-net/plumb/scheduler/plan"
)

// Preview computes what Apply would do, by the same code on the same graph,
// and takes it all back. It assumes that operations succeed, and does not look at
// the Base of the transaction. The errors are those of [Scheduler.WhatIf].
func (s *Scheduler) Preview(ctx context.Context, t Txn) (Plan, error) {
	return s.WhatIf(ctx, Event{Txn: t})
}

// Event is something that may happen, to what is wanted or to what is there.
type Event struct {
	// Txn changes what is wanted. Of a look nothing new is expected.
	Txn Txn
	// Vanish are keys that disappear: a container that dies or a link
	// that somebody removes. What depends on them goes with them. A key that
	// ends in "/" stands for all below it.
	Vanish []Key
	// Unread are kinds, by name, that cannot be read any more.
	Unread []string
}

// WhatIf computes what would be done, and how things would stand, if all that
// happened, one after another; each is worked out before the next. Nothing is
// touched. The cost is that of the changes, not of all that there is.
//
// The error is ErrUnknownSource, ErrUnknownKey for what cannot vanish since it is
// not there, or ErrStopped; or it tells of a key that names nothing, or of
// a kind that there is not or that is never read. There is no plan then. ctx is
// not looked at.
func (s *Scheduler) WhatIf(ctx context.Context, events ...Event) (Plan, error) {
	var p Plan
	var failed error
	err := s.call(func(l *loop) {
		var sim *plan.Simulation
		if sim, failed = l.preview(events...); failed == nil {
			p = sim.Plan
		}
	})
	if err == nil {
		err = failed
	}
	return p, err
}

// preview works out events on the graph and takes all of it back.
func (l *loop) preview(events ...Event) (*plan.Simulation, error) {
	supposed := make([]plan.Supposition, len(events))
	for i, v := range events {
		if err := l.checkTxn(v.Txn); err != nil {
			return nil, err
		}
		supposed[i] = plan.Supposition{Source: l.SourceIndex(v.Txn.Source), Want: v.Txn.Want, Complete: v.Txn.Complete,
			Retries: v.Txn.Retry, Vanish: v.Vanish, Unread: v.Unread}
	}
	return l.planner.Preview(supposed)
}
