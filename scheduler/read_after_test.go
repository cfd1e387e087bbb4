package scheduler_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// readingAfter is a scheduler with kinds of which some are read after others. Each read of
// a kind notes what it finds in the views of those.
type readingAfter struct {
	*scheduler.Scheduler
	t     *testing.T
	world *schedulertest.World
	kinds map[string]*scheduler.Kind[schedulertest.Thing, int]
	mu    sync.Mutex
	reads []string
}

func (r *readingAfter) register(name string, after ...string) error {
	d := r.world.Kind(name, schedulertest.Options{})
	d.ReadAfter = after
	retrieve := d.Retrieve
	d.Retrieve = func(ctx context.Context, s thingScope) iter.Seq2[thingFound, error] {
		note := name
		for _, other := range after {
			if r.kinds[other] == nil {
				note += " without " + other
				continue
			}
			var keys []string
			for k := range r.kinds[other].All() {
				keys = append(keys, string(k))
			}
			slices.Sort(keys)
			note += " sees " + strings.Join(keys, " ")
		}
		r.mu.Lock()
		r.reads = append(r.reads, note)
		r.mu.Unlock()
		return retrieve(ctx, s)
	}
	k, err := scheduler.Register(r.Scheduler, d)
	if err == nil {
		r.kinds[name] = k
	}
	return err
}

func (r *readingAfter) read(want ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.reads, want) {
		r.t.Errorf("reads %q, want %q", r.reads, want)
	}
	r.reads = nil
}

// TestReadAfter: a kind is read when those are that it names, and sees what they found,
// whatever the order in which they are registered, fail, and come.
func TestReadAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &readingAfter{Scheduler: scheduler.New(scheduler.Options{}), t: t, world: schedulertest.NewWorld(), kinds: map[string]*scheduler.Kind[schedulertest.Thing, int]{}}
		var fails atomic.Bool
		fails.Store(true)
		r.world.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
			if op == "look" && k == "c/" && fails.Load() {
				return schedulertest.Fail
			}
			return schedulertest.None
		})
		r.world.Put("b/1", schedulertest.Thing{Text: "x"}, false)
		r.world.Put("c/1", schedulertest.Thing{Text: "x"}, false)
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(r.register("a", "b"))
		check(r.register("b", "c"))
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(running) }()
		t.Cleanup(func() { stop(); <-done })
		r.read("b without c", "a sees b/1")

		// One comes late, and cannot be read at first: those after it wait, and say so.
		check(r.register("c"))
		r.read("c")
		for _, k := range r.Kinds() {
			if k.Name == "b" && !strings.Contains(k.Unread, "b is read after c, which cannot be read") {
				t.Errorf("b: %q", k.Unread)
			}
		}
		fails.Store(false)
		time.Sleep(time.Minute)
		r.read("c", "b sees c/1", "a sees b/1")

		r.world.Put("c/2", schedulertest.Thing{Text: "x"}, false)
		_, err := r.Apply(t.Context(), scheduler.Txn{LookAll: true})
		check(err)
		r.read("c", "b sees c/1 c/2", "a sees b/1")

		// Once read, it may fail: its view is as last seen.
		fails.Store(true)
		_, err = r.Apply(t.Context(), scheduler.Txn{LookAll: true})
		check(err)
		r.read("c", "b sees c/1 c/2", "a sees b/1")

		check(r.Unregister("c"))
		if err := r.register("c", "a"); err == nil || !strings.Contains(err.Error(), "c after a after b after c; take one out") {
			t.Errorf("a circle is refused with %v", err)
		}
	})
}

// TestUnregisteredWhileQueued: a key that waits to be read, while a kind is read that comes
// before, is not left waiting when its kind is unregistered.
func TestUnregisteredWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &readingAfter{Scheduler: scheduler.New(scheduler.Options{}), t: t, world: schedulertest.NewWorld(), kinds: map[string]*scheduler.Kind[schedulertest.Thing, int]{}}
		var hangs atomic.Bool
		r.world.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
			if op == "look" && k == "b/" && hangs.Load() {
				return schedulertest.Hang
			}
			return schedulertest.None
		})
		if err := errors.Join(r.register("b"), r.register("a", "b")); err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(running) }()
		t.Cleanup(func() { stop(); <-done })
		a := scheduler.Txn{Want: []scheduler.Change{scheduler.Set("a/1", schedulertest.Thing{Text: "x"})}}
		if res, err := r.Apply(t.Context(), a); err != nil || !res.OK() {
			t.Fatal(res, err)
		}
		hangs.Store(true)
		r.Submit(scheduler.Txn{Look: []scheduler.Key{"b/", "a/1"}})
		synctest.Wait()
		if err := errors.Join(r.Unregister("a"), r.register("a", "b")); err != nil {
			t.Fatal(err)
		}
		hangs.Store(false)
		r.world.Release()
		time.Sleep(time.Minute)
		if s, err := r.Get(t.Context(), "a/1"); err != nil || s.State != scheduler.Configured {
			t.Errorf("a/1 is %s: %s, error %v", s.State, s.Reason, err)
		}
	})
}
