package scheduler_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// After a restart what others tell comes one by one. A value whose own has not come
// yet leans on what has; that is no part of it, and when its own comes it stays.
func TestLeansUntilItsOwnComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := schedulertest.NewWorld()
		w.Put("o/1", schedulertest.Thing{Text: "one"}, false)
		w.Put("o/2", schedulertest.Thing{Text: "two"}, false)
		stop := runOn(t, w)
		stop()
		made := len(w.Lines())

		w.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
			if op == "look" && k == "o/2" {
				return schedulertest.Fail
			}
			return schedulertest.None
		})
		stop = runOn(t, w)
		defer stop()
		w.Put("o/1", schedulertest.Thing{Text: "uno"}, true)
		synctest.Wait()
		w.Put("o/1", schedulertest.Thing{Text: "eins"}, true)
		synctest.Wait()
		w.NoFaults()
		time.Sleep(time.Minute)
		if lines := w.Lines()[made:]; slices.Contains(lines, "- a/1") || slices.Contains(lines, "+ a/1=v1") {
			t.Errorf("it was made anew: %q", lines)
		}
	})
}

// runOn runs a scheduler on a World, whose a/1 is built with the text of o/2, which
// is one of many as far as its need says.
func runOn(t *testing.T, w *schedulertest.World) (stop func()) {
	a := w.Kind("a", schedulertest.Options{})
	a.Needs = func(scheduler.Key, schedulertest.Thing) []scheduler.Need {
		n := scheduler.If(scheduler.AnyOf("o/", "the second"), func(k scheduler.Key, _ schedulertest.Thing, _ int) bool { return k == "o/2" })
		return []scheduler.Need{scheduler.Project(n, func(v schedulertest.Thing, _ int) string { return v.Text })}
	}
	s := scheduler.New(scheduler.Options{})
	for _, d := range []thingKind{a, w.Kind("o", schedulertest.Options{Observed: true})} {
		if _, err := scheduler.Register(s, d); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	s.Submit(scheduler.Txn{Complete: true, Want: changes("a/1 v1")})
	synctest.Wait()
	return func() { cancel(); <-done }
}
