package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestLostGroundIsWaitedFor: what failed while something that it needs was gone is tried
// again when that is back, and not by the clock, whatever comes first: the loss, the
// failure, the read of what it left, or the return.
func TestLostGroundIsWaitedFor(t *testing.T) {
	for _, need := range []string{"needs=b/1", "needs=b/"} {
		for _, order := range []struct {
			name  string
			steps []string
		}{
			{"it fails when its ground is back", []string{"take", "put", "fail", "read"}},
			{"its ground comes back while what it left is read", []string{"fail", "take", "put", "read"}},
			{"its ground went before it failed, and comes after the read", []string{"take", "fail", "read", "put"}},
			{"its ground goes after it failed", []string{"fail", "read", "take", "put"}},
		} {
			t.Run(need+" "+order.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { lostGround(t, need, order.steps) })
			})
		}
	}
}

func lostGround(t *testing.T, need string, steps []string) {
	fail, read := make(chan struct{}), make(chan struct{})
	failed := false
	r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
		if d.Name != "a" {
			return d
		}
		create, retrieve := d.Create, d.Retrieve
		d.Create = func(ctx context.Context, k scheduler.Key, v schedulertest.Thing) (int, error) {
			if failed {
				return create(ctx, k, v)
			}
			<-fail
			failed = true
			return 0, errors.New("what it needs is not there")
		}
		d.Retrieve = func(ctx context.Context, s thingScope) iter.Seq2[thingFound, error] {
			if !s.All {
				<-read
			}
			return retrieve(ctx, s)
		}
		return d
	})
	r.want("b/1 v1")
	r.Submit(scheduler.Txn{Want: changes("a/1 v1 " + need)})
	synctest.Wait()
	gate := false // b/1 is kept away until the step put
	r.world.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
		if gate && op == "create" && k == "b/1" {
			return schedulertest.Hang
		}
		return schedulertest.None
	})
	for _, step := range steps {
		switch step {
		case "take":
			gate = true
			r.world.Take("b/1", true)
		case "put":
			gate = false
			r.world.Release()
		case "fail":
			close(fail)
		case "read":
			close(read)
		}
		synctest.Wait()
	}
	for _, rec := range r.History(scheduler.HistoryQuery{Key: "a/1"}) {
		for _, s := range rec.Done {
			if lost := steps[0] == "take"; s.Error != "" && s.Lapsed != lost {
				t.Errorf("%+v, and what it needs was lost before: %v", s, lost)
			}
		}
	}
	if st, err := r.Get(ctx, "a/1"); err != nil || st.State != scheduler.Configured {
		t.Errorf("%v, %v", st, err)
	}
}

// TestDeletionThatFailsIsAFailure: a deletion is due because a need is gone, which excuses
// nothing.
func TestDeletionThatFailsIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name == "a" {
				d.Delete = func(context.Context, scheduler.Key, schedulertest.Thing, int) error {
					<-gate
					return errors.New("busy")
				}
			}
			return d
		})
		r.want("b/1 v1", "a/1 v1 needs=b/1")
		r.Submit(scheduler.Txn{Want: changes("b/1 -")})
		synctest.Wait()
		r.Submit(scheduler.Txn{Want: changes("a/1 v2 needs=b/1")}) // it is thought about meanwhile
		synctest.Wait()
		close(gate)
		synctest.Wait()
		blame, err := r.Blame(ctx, "a/1")
		if err != nil || len(blame.Failures) == 0 {
			t.Errorf("failures %v, %v", blame.Failures, err)
		}
	})
}

// TestLapsedIsNoFailure: what could not be done because its ground went says so in the
// record, is tried again, and is nobody's failure.
func TestLapsedIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name != "a" {
				return d
			}
			create := d.Create
			d.Create = func(ctx context.Context, k scheduler.Key, v schedulertest.Thing) (int, error) {
				if tries++; tries == 1 {
					return 0, fmt.Errorf("make it: %w", scheduler.Lapsed(errors.New("its ground is gone")))
				}
				return create(ctx, k, v)
			}
			return d
		})
		r.Submit(scheduler.Txn{Want: changes("a/1 v1")})
		time.Sleep(time.Minute)
		blame, err := r.Blame(ctx, "a/1")
		if err != nil || tries != 2 || len(blame.Failures) > 0 {
			t.Errorf("%d tries, %v, %v", tries, blame, err)
		}
		for _, rec := range r.History(scheduler.HistoryQuery{Key: "a/1"}) {
			for _, s := range rec.Done {
				if (s.Error != "") != s.Lapsed {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}

// TestLapsedIsNoAttempt: what lapses uses up none of the attempts that a transaction allows,
// and is tried again at growing distances all the same. What fails for other reasons after
// that has all of them.
func TestLapsedIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		r := runKinds(t, scheduler.Options{RetryMin: time.Second, RetryMax: time.Hour, Rand: func() float64 { return 0.5 }}, func(d thingKind) thingKind {
			if d.Name == "a" {
				d.Create = func(context.Context, scheduler.Key, schedulertest.Thing) (int, error) {
					if tries = append(tries, time.Now()); len(tries) <= 4 {
						return 0, scheduler.Lapsed(errors.New("its ground is gone"))
					}
					return 0, errors.New("no")
				}
			}
			return d
		})
		r.Submit(scheduler.Txn{Want: changes("a/1 v1"), Retry: &scheduler.Retries{Attempts: 2}})
		time.Sleep(time.Second / 2)
		if st, err := r.Get(ctx, "a/1"); err != nil || st.State != scheduler.Retrying || st.Attempts != 0 {
			t.Errorf("it lapsed: %v after %d attempts, %v", st.State, st.Attempts, err)
		}
		time.Sleep(time.Minute)
		if st, err := r.Get(ctx, "a/1"); err != nil || st.State != scheduler.Failed || st.Attempts != 2 {
			t.Errorf("it failed: %v after %d attempts, %v", st.State, st.Attempts, err)
		}
		var waits []time.Duration
		for i := range tries[1:] {
			waits = append(waits, tries[i+1].Sub(tries[i]))
		}
		if want := []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9}; !slices.Equal(waits, want) {
			t.Errorf("waited %v, not %v", waits, want)
		}
	})
}
