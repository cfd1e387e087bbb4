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
		if got := why(); got != "to stand on (nobody wants it)" {
			t.Errorf("first: %s", got)
		}
		apply("a/2", schedulertest.Thing{Needs: []string{"o/1"}})
		if got := why(); got != "to stand on (pending)" {
			t.Errorf("then: %s", got)
		}
	})
}
