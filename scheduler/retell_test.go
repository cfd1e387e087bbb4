package scheduler_test

import (
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// The reason of a key says how what it needs stands. When that changes, the
// watcher hears of the key again, though nothing about it changed.
func TestWatcherHearsWhenABlockerMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		apply := func(k scheduler.Key, v schedulertest.Thing) {
			_, err := r.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set(k, v)}})
			r.check(err)
		}
		w := r.Watch("a/1")
		defer w.Stop()
		why := func() string {
			t.Helper()
			changes, _, err := w.Next(ctx)
			r.check(err)
			if len(changes) != 1 || len(changes[0].Missing) != 1 {
				t.Fatalf("heard %+v", changes)
			}
			return changes[0].Missing[0].Why
		}
		_, _, err := w.Next(ctx) // the first picture is empty
		r.check(err)
		apply("a/1", schedulertest.Thing{Needs: []string{"a/2"}})
		if got := why(); got != "to stand on (not in the intent)" {
			t.Errorf("first: %s", got)
		}
		apply("a/2", schedulertest.Thing{Needs: []string{"o/1"}})
		if got := why(); got != "to stand on (pending)" {
			t.Errorf("then: %s", got)
		}
	})
}

// A failure is final only until the value or the actual state changes: when what a
// value needs is made anew, the value is tried again.
func TestFinalFailureEndsWhenTheGroundChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		apply := func(k scheduler.Key, v schedulertest.Thing) scheduler.Outcome {
			res, err := r.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set(k, v)}})
			r.check(err)
			return res.Keys[0]
		}
		r.world.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
			if op == "create" && k == "a/1" {
				return schedulertest.FailForever
			}
			return schedulertest.None
		})
		apply("a/2", schedulertest.Thing{Text: "tap"})
		if s := apply("a/1", schedulertest.Thing{Needs: []string{"a/2"}}); s.State != scheduler.Failed {
			t.Fatalf("a/1 is %s: %s", s.State, s.Reason)
		}
		r.world.SetFault(nil)
		apply("a/2", schedulertest.Thing{Text: "bridge"})
		synctest.Wait()
		if s, err := r.Get(ctx, "a/1"); err != nil || s.State != scheduler.Configured {
			t.Errorf("a/1 is %s: %s (%v)", s.State, s.Reason, err)
		}
	})
}

// What a transaction hears of a key names each need that is not met once.
func TestOutcomeNamesWhatIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		res := r.want("a/1 v1 needs=b/1,b/1,b/2")
		if got, want := res.Keys[0].String(), "a/1 pending: needs b/1, b/2"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
