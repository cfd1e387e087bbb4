package confirm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// probeEvery is how often a probe is tried, and how long it may take.
	probeEvery = time.Second
	// probeFailures are as many in a row as take the change back.
	probeFailures = 3
	// clockEvery is how often the clock is looked at, which somebody may set.
	clockEvery = 10 * time.Second
)

// Trial is a change while it waits to be confirmed. Its methods may be called from any
// goroutine.
type Trial struct {
	c *Confirmer

	mu sync.Mutex
	p  Pending
	// notes are what could not be taken back.
	notes []string
	// revision is that of the store which has the change.
	revision int64
	// trouble is why it cannot be taken back for now.
	trouble string

	written, probed, hindered, ended signal
	// announced: it was told that keys are taken back, and takenBack tells the end of that.
	announced sync.Once
	takenBack func()
	// moved has a token when the deadline moved or reverting began.
	moved chan struct{}
}

// signal is something that happens once.
type signal struct {
	once sync.Once
	done chan struct{}
}

func newSignal() signal { return signal{done: make(chan struct{})} }

func (s *signal) set() { s.once.Do(func() { close(s.done) }) }

func newTrial(c *Confirmer, p Pending) *Trial {
	return &Trial{c: c, p: p, written: newSignal(), probed: newSignal(), hindered: newSignal(), ended: newSignal(), moved: make(chan struct{}, 1)}
}

// Pending is the change as it is now.
func (t *Trial) Pending() Pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.p
}

// Trouble is why the change cannot be taken back for now; empty if nothing keeps it.
func (t *Trial) Trouble() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trouble
}

// Written tells that the store holds the change, since which revision.
func (t *Trial) Written(revision int64) {
	t.mu.Lock()
	t.revision = revision
	t.mu.Unlock()
	t.written.set()
}

// Probed is closed when each of the probes has succeeded once.
func (t *Trial) Probed() <-chan struct{} { return t.probed.done }

// Hindered is closed when the change was to be taken back and the store could not be
// written: from then on its former values count on this host, see [Trial.Trouble].
func (t *Trial) Hindered() <-chan struct{} { return t.hindered.done }

// Ended is closed when the change was confirmed or taken back.
func (t *Trial) Ended() <-chan struct{} { return t.ended.done }

// Reverted says why the change was taken back, and what of it was not, once it has ended;
// reason is empty if it was confirmed.
func (t *Trial) Reverted() (reason string, notes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.p.Reverting, t.notes
}

// Forget ends a change that did not come to be: the store does not hold any of it.
func (t *Trial) Forget() error { return t.end() }

// Confirm lets the change stay.
func (t *Trial) Confirm() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	reverting := t.p.Reverting
	if reverting == "" && !time.Now().Before(t.p.Deadline) {
		reverting = late(t.p)
	}
	if reverting != "" {
		return fmt.Errorf("%w: %s", ErrReverting, reverting)
	}
	if err := t.end(); err != nil {
		return fmt.Errorf("the change is not confirmed: %w", err)
	}
	t.c.Log.Info("a change was confirmed", "name", t.p.Name)
	return nil
}

// Extend has the change wait for at least so long from now.
func (t *Trial) Extend(by time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.p.Reverting != "":
		return fmt.Errorf("%w: %s", ErrReverting, t.p.Reverting)
	case t.over():
		return ErrNone
	}
	next := t.p
	if d := time.Now().Add(by); d.After(next.Deadline) {
		next.Deadline = d
	}
	if err := t.c.record.write(next); err != nil {
		return fmt.Errorf("the time cannot be extended: %w", err)
	}
	t.p = next
	t.notify()
	return nil
}

// Abort has the change taken back now, for a reason; [Trial.Ended] tells when it is done.
func (t *Trial) Abort(reason string) { t.startReverting(reason) }

// startReverting makes sure that the change is taken back, also after a crash.
func (t *Trial) startReverting(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.p.Reverting != "" || t.over() {
		return
	}
	t.p.Reverting = reason
	if err := t.c.record.write(t.p); err != nil { // its time is over some day in any case
		t.c.Log.Warn("that a change is taken back cannot be written down", "name", t.p.Name, "error", err)
	}
	t.notify()
}

// notify wakes run. t.mu is held.
func (t *Trial) notify() {
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

// over reports whether the change has ended.
func (t *Trial) over() bool {
	select {
	case <-t.ended.done:
		return true
	default:
		return false
	}
}

// end forgets the change, on disk first.
func (t *Trial) end() error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.c.trial != t {
		return nil
	}
	if err := t.c.record.remove(); err != nil {
		return err
	}
	t.c.trial = nil
	t.ended.set()
	return nil
}

// run waits for the end of the change and takes it back if it must.
func (t *Trial) run(ctx context.Context) {
	probing, stop := context.WithCancel(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	defer stop()
	probes.Go(func() { t.probe(probing) })
	for t.Pending().Reverting == "" {
		over := time.NewTimer(min(time.Until(t.Pending().Deadline), clockEvery))
		select {
		case <-ctx.Done():
		case <-t.ended.done:
		case <-t.moved:
		case <-over.C:
			if p := t.Pending(); !time.Now().Before(p.Deadline) {
				t.startReverting(late(p))
			}
		}
		over.Stop()
		if ctx.Err() != nil || t.over() {
			return
		}
	}
	stop()
	t.revert(ctx)
}

// probe tries the probes from when the keys have settled, and has the change taken back
// when one fails again and again.
func (t *Trial) probe(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-t.written.done:
	}
	p := t.Pending()
	if len(p.Probes) == 0 {
		t.probed.set()
		return
	}
	t.mu.Lock()
	revision := t.revision
	t.mu.Unlock()
	// Before that all is as it was, and a probe says nothing of the change.
	if err := t.c.Store.Reached(ctx, revision); err != nil {
		return
	}
	if err := t.c.Settled(ctx, p.Keys()); err != nil {
		return
	}
	failed, succeeded := make([]int, len(p.Probes)), map[int]bool{}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		for i, err := range t.c.tryAll(ctx, p.Probes) {
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				failed[i], succeeded[i] = 0, true
			} else if failed[i]++; failed[i] == probeFailures {
				t.startReverting(fmt.Sprintf("the probe %s failed %d times: %v", p.Probes[i], probeFailures, err))
				return
			}
		}
		if len(succeeded) == len(p.Probes) {
			t.probed.set()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Prove tries probes as those of a change are tried, until each has succeeded once. It is for a
// change that had nothing to write. It returns an error when one fails again and again, or
// that of ctx.
func (c *Confirmer) Prove(ctx context.Context, probes []string) error {
	if len(probes) == 0 {
		return nil
	}
	failed, succeeded := make([]int, len(probes)), map[int]bool{}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		for i, err := range c.tryAll(ctx, probes) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				failed[i], succeeded[i] = 0, true
			} else if failed[i]++; failed[i] == probeFailures {
				return fmt.Errorf("the probe %s failed %d times: %w", probes[i], probeFailures, err)
			}
		}
		if len(succeeded) == len(probes) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tryAll tries the probes side by side.
func (c *Confirmer) tryAll(ctx context.Context, probes []string) []error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeEvery, errors.New("it took longer than "+probeEvery.String()))
	defer cancel()
	out := make([]error, len(probes))
	var all sync.WaitGroup
	for i, p := range probes {
		all.Go(func() {
			if out[i] = c.Probe(ctx, p); errors.Is(out[i], context.DeadlineExceeded) {
				out[i] = context.Cause(ctx)
			}
		})
	}
	all.Wait()
	return out
}
