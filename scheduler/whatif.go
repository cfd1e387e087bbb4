package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plumb-net/plumb/scheduler/explain"
	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/plan"
)

// Preview computes what Apply would do, by the same code on the same graph,
// and takes it all back. It assumes that operations succeed, and does not look at
// the Base of the transaction. The errors are those of [Scheduler.WhatIf].
//
// A transaction with the Base of the plan, or with AsPreviewed, is executed in its steps. Without it
// the end is the same, but if operations end in another order than in the plan, or fail, more may be
// deleted and made again: a value in place waits for a need that the transaction meets later only if
// the need names a key.
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
// A small preview is computed in the loop, a larger one outside of it, on a copy of the graph.
//
// The error is ErrUnknownSource, ErrUnknownKey for what cannot vanish since it is
// not there, ErrTooLarge, ErrBusy or ErrStopped, or that of ctx; or it tells of a key that
// names nothing, or of a kind that there is not or that is never read. There is no plan then.
func (s *Scheduler) WhatIf(ctx context.Context, events ...Event) (Plan, error) {
	if err := checkSize(events); err != nil {
		return Plan{}, err
	}
	sim, err := s.previews.inLoop(events)
	if errors.Is(err, plan.ErrHalted) {
		sim, err = s.previews.onCopy(ctx, events)
	}
	if err != nil {
		return Plan{}, err
	}
	return sim.Finish(), nil
}

const (
	// previewFree is how many steps of work a preview may do in the loop, a few milliseconds.
	// A preview for a container takes fewer.
	previewFree = 512
	// copyFree is how many steps it may take to copy the graph while other work waits: two for
	// each key. A copy of this many takes about 5 ms.
	copyFree = 1 << 14
	// copyTime is for how long a copy is tried, and copyRest for how many times as long as it
	// took the next one waits.
	copyTime, copyRest = 10 * time.Second, 4
	// previewKeys and previewChanges bound the keys that a preview names and its changes to
	// the graph, which take memory.
	previewKeys, previewChanges = 50_000, 1_000_000
)

// previews computes previews.
type previews struct {
	s       *Scheduler
	copying chan struct{} // holds a value while one uses a copy of the graph
	next    time.Time     // when the next copy may be made; of whoever is copying
}

// inLoop computes a preview in the loop. The error is plan.ErrHalted if it takes too
// long for that.
func (p *previews) inLoop(events []Event) (*plan.Simulation, error) {
	var sim *plan.Simulation
	var failed error
	err := p.s.call(func(l *loop) {
		sim, failed = l.preview(workAtMost(previewFree), events...)
	})
	return sim, cmp.Or(err, failed)
}

// workAtMost ends a preview after that many steps of its work.
func workAtMost(most int) (halt func(changes int) bool) {
	work := 0
	return func(int) bool {
		work++
		return work > most || haltAt != nil && haltAt(work)
	}
}

// haltAt has previews halt in the loop at some of their steps; tests set it.
var haltAt func(work int) bool

// onCopy computes a preview on a copy of the graph, in the caller's goroutine.
func (p *previews) onCopy(ctx context.Context, events []Event) (*plan.Simulation, error) {
	select {
	case p.copying <- struct{}{}: // one at a time, for the memory
		defer func() { <-p.copying }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.s.stopped:
		return nil, ErrStopped
	}
	e, err := p.copy(ctx)
	if err != nil {
		return nil, err
	}
	work, large := 0, false
	sim, err := plan.NewPlanner(e, explain.New(e.Assessor)).Preview(p.s.l.supposed(events), func(changes int) bool {
		work++
		large = changes > previewChanges
		return large || work%64 == 0 && (ctx.Err() != nil || p.s.ctx.Err() != nil)
	})
	if audit != nil {
		audit(e.G)
	}
	switch {
	case !errors.Is(err, plan.ErrHalted):
		return sim, err
	case large:
		return nil, tooLarge(fmt.Sprintf("it makes more than %d changes to the dependency graph", previewChanges))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, ErrStopped
}

// copy copies the engine in the loop. If other work arrives before it is done it tries
// again later.
func (p *previews) copy(ctx context.Context) (*engine.Engine, error) {
	deadline := p.s.opts.Clock.Now().Add(copyTime)
	for {
		if err := p.rest(ctx, p.next.Sub(p.s.opts.Clock.Now())); err != nil {
			return nil, err
		}
		began := p.s.opts.Clock.Now()
		var e *engine.Engine
		if err := p.s.call(func(l *loop) {
			work := 0
			l.BeginAll()
			e = l.Fork(func() bool {
				work++
				return work > copyFree && work%256 == 0 && (l.queued > 0 || p.s.waiting()) || copyHaltAt != nil && copyHaltAt(work)
			})
		}); err != nil {
			return nil, err
		}
		now := p.s.opts.Clock.Now()
		p.next = now.Add(min(max(copyRest*now.Sub(began), time.Millisecond), 100*time.Millisecond))
		if e != nil {
			return e, nil
		}
		if now.After(deadline) {
			return nil, fmt.Errorf("%w: there was no pause in %v to copy the dependency graph; try again later, or preview fewer keys", ErrBusy, copyTime)
		}
	}
}

// copyHaltAt has copies of the graph halt at some of their steps; tests set it.
var copyHaltAt func(work int) bool

// waiting reports whether something waits for the loop.
func (s *Scheduler) waiting() bool {
	if s.ctx.Err() != nil {
		return true
	}
	now := s.opts.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inputs) > 0 || len(s.heard) > 0 || s.timer != nil && !s.timerAt.After(now)
}

// rest returns after d, or with an error when ctx or the scheduler ends.
func (p *previews) rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	over := make(chan struct{})
	stop := p.s.opts.Clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.s.stopped:
		return ErrStopped
	}
}

// checkSize refuses what is too large before the loop hears of it.
func checkSize(events []Event) error {
	if n := changesOf(events); n > previewKeys {
		return tooLarge(fmt.Sprintf("it names %d keys, and at most %d are possible", n, previewKeys))
	}
	return nil
}

func changesOf(events []Event) (n int) {
	for _, v := range events {
		n += len(v.Txn.Want) + len(v.Vanish)
	}
	return n
}

func tooLarge(why string) error {
	return fmt.Errorf("%w: %s; preview fewer keys at a time", ErrTooLarge, why)
}

// toTheEnd is for a preview that is part of an input.
func toTheEnd(int) bool { return false }

// preview works out events on the graph and takes all of it back. halt can end it.
func (l *loop) preview(halt func(changes int) bool, events ...Event) (*plan.Simulation, error) {
	for _, v := range events {
		if err := l.checkTxn(v.Txn); err != nil {
			return nil, err
		}
	}
	return l.planner.Preview(l.supposed(events), halt)
}

// supposed are the events as the planner takes them. It reads only what never changes.
func (l *loop) supposed(events []Event) []plan.Supposition {
	out := make([]plan.Supposition, len(events))
	for i, v := range events {
		out[i] = plan.Supposition{Source: l.SourceIndex(v.Txn.Source), Want: v.Txn.Want, Complete: v.Txn.Complete, ByOwner: v.Txn.ByOwner,
			Retries: v.Txn.Retry, Vanish: v.Vanish, Unread: v.Unread}
	}
	return out
}
