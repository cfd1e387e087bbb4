package scheduler_test

import (
	"context"
	"fmt"
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

// What went wrong in the ancestor and cannot be told in a story. The numbers
// are those of the stories B01 to B22 in testdata.

// B4: an event that names no key is about all keys of the kind.
func TestEventWithoutKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notify := map[string]func(...scheduler.Key){}
		var mu sync.Mutex
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			d.Watch = func(ctx context.Context, n func(...scheduler.Key)) error {
				mu.Lock()
				notify[d.Name] = n
				mu.Unlock()
				<-ctx.Done()
				return ctx.Err()
			}
			return d
		})
		r.want("a/1 v1")
		r.world.Put("a/1", schedulertest.Thing{Text: "other"}, false)
		notify["a"]()
		synctest.Wait()
		if got := r.world.String(); got != "a/1=v1\n" {
			t.Errorf("nobody looked: there is %q", got)
		}
	})
}

// B9: no reader holds a lock while it asks the loop, or while its caller does.
// A lock that is held shows as a deadlock.
func TestReadersHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.want("a/1 v1", "a/2 v1")
		for k := range r.a.All() {
			r.want(string(k) + " v2")
			r.a.Get(k)
		}
		for range 100 {
			seq := r.want("a/1 v3").Seq
			r.Submit(scheduler.Txn{Want: changes("a/1 v4")})
			if len(r.History(scheduler.HistoryQuery{Seq: seq})) != 1 {
				t.Fatal("a record is missing")
			}
		}
	})
}

// B10: the queue takes everything at once, also while nobody works it off.
func TestSubmitNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(scheduler.Options{})
		w := schedulertest.NewWorld()
		_, err := scheduler.Register(s, w.Kind("a", schedulertest.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		var all []*scheduler.Handle
		for i := range 5000 {
			all = append(all, s.Submit(scheduler.Txn{Want: changes(fmt.Sprintf("a/1 v%d", i))}))
		}
		runCtx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- s.Run(runCtx) }()
		for i, h := range all {
			if res, err := h.Wait(ctx); err != nil || res.Seq != uint64(i+1) {
				t.Fatalf("transaction %d became number %d: %v", i, res.Seq, err)
			}
		}
		cancel()
		if err := <-done; err != nil || w.String() != "a/1=v4999\n" {
			t.Errorf("%v, there is %q", err, w)
		}
	})
}

// B10: a request that reads everything waits until it is read.
func TestLookWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.hang("look", "b/")
		h := r.Submit(scheduler.Txn{LookAll: true})
		synctest.Wait()
		select {
		case <-h.Done():
			t.Error("it was told done while a kind was being read")
		default:
		}
		r.world.Release()
		if _, err := h.Wait(ctx); err != nil {
			t.Error(err)
		}
	})
}

// B13: whether a need for a prefix is met goes by the beginning of the key and
// nothing else: not by slashes, and not by what was there first.
func TestPrefixInAnyOrder(t *testing.T) {
	for _, prefix := range []scheduler.Key{"b/", "b/x", "b/x/", "b/x/y"} {
		for _, member := range []scheduler.Key{"b/x", "b/x1", "b/x/1", "b/x/y", "b/x/y/z/1", "b/1/x"} {
			for _, memberFirst := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s_%s_%v", prefix, member, memberFirst), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := runKinds(t, scheduler.Options{}, needsAny(prefix))
						lines := []string{"a/1 v1", string(member) + " v1"}
						if memberFirst {
							slices.Reverse(lines)
						}
						r.want(lines[0])
						r.want(lines[1])
						synctest.Wait() // for a/1 too
						is, err := r.Get(ctx, "a/1")
						r.check(err)
						met := strings.HasPrefix(string(member), string(prefix))
						if is.State == scheduler.Configured != met {
							t.Errorf("a/1 is %v", is.State)
						}
						r.want(string(member) + " -")
						synctest.Wait()
						if is, err = r.Get(ctx, "a/1"); err != nil || is.State != scheduler.Pending {
							t.Errorf("without it a/1 is %v, %v", is.State, err)
						}
					})
				})
			}
		}
	}
}

// needsAny makes the values of kind a need any key that begins so.
func needsAny(prefix scheduler.Key) func(thingKind) thingKind {
	return func(d thingKind) thingKind {
		if d.Name == "a" {
			d.Needs = func(scheduler.Key, schedulertest.Thing) []scheduler.Need {
				return []scheduler.Need{scheduler.AnyOf(prefix, "any")}
			}
		}
		return d
	}
}

// B16: what a late kind makes due has true times, also where it is done by the batch.
func TestLateKindHasTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		began := time.Now()
		r.want("l/1 v1", "l/2 v1", "l/3 v1")
		time.Sleep(time.Second)
		_, err := scheduler.Register(r.Scheduler, r.world.Kind("l", schedulertest.Options{Batch: true}))
		r.check(err)
		synctest.Wait()
		all := r.History(scheduler.HistoryQuery{Since: began.Add(time.Second)})
		if len(all) != 1 || len(all[0].Done) != 3 {
			t.Fatalf("the registration and what came of it are not in the history: %v", all)
		}
		if !all[0].Time.Equal(began.Add(time.Second)) || !all[0].Settled.Equal(all[0].Time) {
			t.Errorf("the record is of %v, settled %v", all[0].Time, all[0].Settled)
		}
		for _, s := range all[0].Done {
			if !s.Start.Equal(all[0].Time) || s.Took != 0 {
				t.Errorf("%v began at %v and took %v", s, s.Start, s.Took)
			}
		}
	})
}

// B17, B22: without history everything is known but the past: what is there,
// whose it is, what needs what.
func TestWithoutHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(scheduler.Options{HistoryBytes: -1})
		w := schedulertest.NewWorld()
		w.Put("a/1", schedulertest.Thing{Text: "ours"}, false)
		w.SetForeign("a/2", schedulertest.Thing{Text: "theirs"})
		_, err := scheduler.Register(s, w.Kind("a", schedulertest.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		runCtx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- s.Run(runCtx) }()
		defer func() { cancel(); <-done }()
		if _, err := s.Apply(ctx, scheduler.Txn{Complete: true, Want: changes("a/3 v1 needs=a/4", "a/4 v1")}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got, want := w.String(), "a/2=theirs foreign\na/3=v1\na/4=v1\n"; got != want {
			t.Errorf("there is %q, want %q", got, want)
		}
		if all, err := s.List(ctx); err != nil || len(all) != 3 {
			t.Errorf("List: %v, %v", all, err)
		}
		if edges, err := s.Edges(ctx); err != nil || len(edges) != 1 {
			t.Errorf("Edges: %v, %v", edges, err)
		}
		if why, err := s.Why(ctx, "a/2"); err != nil || why.String() == "" {
			t.Errorf("Why: %v, %v", why, err)
		}
	})
}

// B21: Run returns when all that it started has ended: watches, reads and
// operations that are in no hurry to.
func TestStopWaits(t *testing.T) {
	for _, what := range []string{"create", "look", "watch"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var busy atomic.Int32
				slowly := func(of string) {
					if of == what {
						busy.Add(1)
						time.Sleep(time.Second)
						busy.Add(-1)
					}
				}
				r := runKinds(t, scheduler.Options{StopTimeout: time.Minute}, slow(slowly))
				r.Submit(scheduler.Txn{Want: changes("a/1 v1"), LookAll: true})
				synctest.Wait()
				began := time.Now()
				err := r.stop()
				if err != nil || busy.Load() != 0 || time.Since(began) != time.Second {
					t.Errorf("Run returned %v after %v, while %d %s were under way", err, time.Since(began), busy.Load(), what)
				}
			})
		})
	}
}

// B21: the end waits for a worker that has only just been started: the one that takes the
// place of a worker whose operation is slow.
func TestStopWaitsForNewWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Int32
		begun := make(chan struct{})
		r := runKinds(t, scheduler.Options{Workers: 1, StopTimeout: time.Minute}, slow(func(of string) {
			if of == "create" {
				busy.Add(1)
				begun <- struct{}{}
				time.Sleep(time.Second)
				busy.Add(-1)
			}
		}))
		r.Submit(scheduler.Txn{Want: changes("a/1 v1", "a/2 v1")})
		<-begun // by the worker that has read
		<-begun // by another, so it ends later
		if err := r.stop(); err != nil || busy.Load() != 0 {
			t.Errorf("Run returned %v while %d operations were under way", err, busy.Load())
		}
	})
}

// slow makes what kind a does take its time. Its Watch does so at the end.
func slow(slowly func(of string)) func(thingKind) thingKind {
	return func(d thingKind) thingKind {
		if d.Name != "a" {
			return d
		}
		create, retrieve := d.Create, d.Retrieve
		d.Create = func(ctx context.Context, k scheduler.Key, v schedulertest.Thing) (int, error) {
			slowly("create")
			return create(ctx, k, v)
		}
		looks := 0
		d.Retrieve = func(ctx context.Context, s scheduler.Scope[schedulertest.Thing, int]) iter.Seq2[scheduler.Found[schedulertest.Thing, int], error] {
			if looks++; looks > 1 { // not the first of all
				slowly("look")
			}
			return retrieve(ctx, s)
		}
		d.Watch = func(ctx context.Context, _ func(...scheduler.Key)) error {
			<-ctx.Done()
			slowly("watch")
			return ctx.Err()
		}
		return d
	}
}

// timers is a clock that counts what it is still to call.
type timers struct{ armed atomic.Int32 }

func (*timers) Now() time.Time { return time.Now() }

func (c *timers) AfterFunc(d time.Duration, f func()) func() bool {
	c.armed.Add(1)
	t := time.AfterFunc(d, func() { c.armed.Add(-1); f() })
	return func() bool {
		stopped := t.Stop()
		if stopped {
			c.armed.Add(-1)
		}
		return stopped
	}
}

// B21: no timer outlives Run, whatever was due.
func TestStopStopsTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &timers{}
		r := runKinds(t, scheduler.Options{Clock: clock}, func(d thingKind) thingKind {
			d.Watch = func(context.Context, func(...scheduler.Key)) error { return fmt.Errorf("the watch broke") }
			return d
		})
		r.world.SetFault(func(op string, _ scheduler.Key) schedulertest.Fault {
			if op == "create" {
				return schedulertest.Fail
			}
			return schedulertest.None
		})
		r.want("a/1 v1", "b/1 v1")
		if clock.armed.Load() < 2 {
			t.Errorf("%d timers run, there should be one for the retry and some for the watches", clock.armed.Load())
		}
		r.check(r.stop())
		if n := clock.armed.Load(); n != 0 {
			t.Errorf("%d timers run on", n)
		}
	})
}
