package scheduler_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Two values in place come to need each other together, by updates, and one stands on
// the other through a third. That is known before the first update.
func TestNewPeersInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := schedulertest.NewWorld()
		a := w.Kind("a", schedulertest.Options{})
		a.Compare = func(_ scheduler.Key, from, to schedulertest.Thing) scheduler.Verdict {
			if from.Text == to.Text {
				return scheduler.Verdict{}
			}
			return scheduler.Verdict{Change: scheduler.InPlace}
		}
		s := scheduler.New(scheduler.Options{})
		for _, d := range []thingKind{a, w.Kind("b", schedulertest.Options{})} {
			if _, err := scheduler.Register(s, d); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		s.Submit(scheduler.Txn{Complete: true, Want: changes("a/1 v1", "a/2 v1 needs=b/1", "b/1 v1 needs=a/1")})
		synctest.Wait()
		made := len(w.Lines())
		s.Submit(scheduler.Txn{Want: changes("a/1 v2 peer=a/2", "a/2 v2 peer=a/1 needs=b/1")})
		synctest.Wait()
		cancel()
		<-done
		lines := slices.DeleteFunc(w.Lines()[made:], func(l string) bool { return !strings.ContainsAny(l[:1], "+-~") })
		if want := []string{"- a/2", "- b/1", "- a/1"}; !slices.Equal(lines, want) {
			t.Errorf("done: %q, not %q", lines, want)
		}
	})
}
