package scheduler_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Where keys are named to mean something, the empty one means all there is.
func TestTheEmptyKeyMeansAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{Policies: []scheduler.Policy{{Keys: "b/", Drift: scheduler.DriftAlert}}})
		r.want("a/1 v1", "a/2 v1")
		r.check(r.Pause("", "a quiet day", time.Time{}))
		if s := r.want("a/1 v2").Keys[0]; s.State != scheduler.Paused {
			t.Errorf("a/1 is %s: %s", s.State, s.Reason)
		}
		if err := r.Resume("a/1"); !errors.Is(err, scheduler.ErrNotPaused) {
			t.Errorf("a part of a pause is resumed: %v", err)
		}
		r.check(r.Resume(""))
		if err := r.Resume(""); !errors.Is(err, scheduler.ErrNotPaused) {
			t.Errorf("what is not paused is resumed: %v", err)
		}
		synctest.Wait()
		all, err := r.List(ctx, "")
		r.check(err)
		if len(all) != 2 || all[0].State != scheduler.Configured {
			t.Errorf("there is %+v", all)
		}
		seen, err := r.Inspect(ctx, "")
		r.check(err)
		if len(seen) != 2 {
			t.Errorf("inspected is %+v", seen)
		}
		past, err := r.At(ctx, time.Now(), "")
		r.check(err)
		if len(past) != 2 {
			t.Errorf("the present is %+v", past)
		}
		plan, err := r.WhatIf(ctx, scheduler.Event{Vanish: []scheduler.Key{""}})
		r.check(err)
		if len(plan.Steps) != 2 {
			t.Errorf("if all vanished: %+v", plan.Steps)
		}
		defer r.Watch("").Stop()
		r.world.Take("a/2", false)
		_, err = r.Apply(ctx, scheduler.Txn{Look: []scheduler.Key{""}})
		r.check(err)
		synctest.Wait()
		if got := r.world.String(); got != "a/1=v2\na/2=v1\n" {
			t.Errorf("there is %q", got)
		}
	})
}

// Who wraps the error of what has not failed has not failed.
func TestNoErrorIsNone(t *testing.T) {
	for name, err := range map[string]error{
		"Retry": scheduler.Retry(nil, time.Second), "Terminal": scheduler.Terminal(nil), "Conflict": scheduler.Conflict("somebody", nil),
		"Blocked": scheduler.Blocked("a/1", nil), "Lapsed": scheduler.Lapsed(nil), "NotFound": scheduler.NotFound(nil), "Unsupported": scheduler.Unsupported(nil),
	} {
		if err != nil {
			t.Errorf("%s(nil) is %v", name, err)
		}
	}
	_ = (&scheduler.OpError{}).Error() // does not panic
}

// rude panics when it is asked what it says.
type rude struct{ why *string }

func (r rude) Error() string { return *r.why }

// A watch that worked for long and broke is begun again as soon as after its first
// failure, however often it broke before.
func TestWatchThatWorkedBeginsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		d := plain("x")
		d.Watch = func(ctx context.Context, _ func(...scheduler.Key)) error {
			begun.Add(1)
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
			return errors.New("the connection was lost")
		}
		r := run(t, scheduler.Options{RetryMin: time.Second, RetryMax: 5 * time.Minute, Rand: func() float64 { return 0.5 }})
		_, err := scheduler.Register(r.Scheduler, d)
		r.check(err)
		time.Sleep(20*time.Hour + 30*time.Second) // twenty hours and a second of waiting after each
		if n := begun.Load(); n != 21 {
			t.Errorf("it was begun %d times", n)
		}
	})
}

// What a kind finds and was not asked for, or belongs to no kind, is not told.
func TestInspectTellsWhatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			d.Retrieve = func(_ context.Context, s scheduler.Scope[schedulertest.Thing, int]) iter.Seq2[scheduler.Found[schedulertest.Thing, int], error] {
				return func(yield func(scheduler.Found[schedulertest.Thing, int], error) bool) {
					for _, k := range []scheduler.Key{"a/1", "a/2", "nokind/1"} {
						if d.Name == "a" && !yield(scheduler.Found[schedulertest.Thing, int]{Key: k}, nil) {
							return
						}
					}
				}
			}
			return d
		})
		for _, of := range []scheduler.Key{"a/1", "nokind/1"} {
			r.want(string(of) + " v1")
			seen, err := r.Inspect(ctx, of)
			r.check(err)
			if len(seen) != 1 || seen[0].Key != of {
				t.Errorf("of %s, inspected is %+v", of, seen)
			}
		}
	})
}
