package scheduler_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Operations of one lane run one after another, in the order in which they
// became due, however many workers there are.
func TestLaneKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under atomic.Int32
		var order []scheduler.Key
		r := runKinds(t, scheduler.Options{Workers: 8}, func(d thingKind) thingKind {
			if d.Name != "a" {
				return d
			}
			create := d.Create
			d.Lane = func(scheduler.Key, schedulertest.Thing) string { return "the one" }
			d.Create = func(ctx context.Context, k scheduler.Key, v schedulertest.Thing) (int, error) {
				if n := under.Add(1); n > 1 {
					t.Errorf("%d operations of the lane at once", n)
				}
				defer under.Add(-1)
				order = append(order, k)
				time.Sleep(time.Millisecond)
				return create(ctx, k, v)
			}
			return d
		})
		var want []scheduler.Key
		for _, i := range []int{3, 1, 4, 5, 2} {
			k := scheduler.Key(fmt.Sprint("a/", i))
			want = append(want, k)
			r.Submit(scheduler.Txn{Want: changes(string(k) + " v1")})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(order, want) {
			t.Errorf("they ran as %v, want %v", order, want)
		}
	})
}

// A worker takes several operations along. If one of them hangs, those before
// it are told and those after it are done all the same, even with one worker.
func TestHangingOperationHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{Workers: 1})
		r.hang("create", "b/10")
		const keys = 40
		var lines []string
		for i := 1; i <= keys; i++ {
			lines = append(lines, fmt.Sprintf("b/%d v1", i))
		}
		r.Submit(scheduler.Txn{Want: changes(lines...)})
		time.Sleep(100 * time.Millisecond)
		done := 0
		all, err := r.List(ctx, "b/")
		r.check(err)
		for _, s := range all {
			if s.State == scheduler.Configured {
				done++
			}
		}
		if done != keys-1 {
			t.Errorf("%d of %d are configured beside the one that hangs", done, keys-1)
		}
	})
}

// The context of an operation ends with its deadline, for those who asked for
// it before and those who ask then.
func TestContextEndsWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took atomic.Int64 // nanoseconds
		r := runKinds(t, scheduler.Options{Timeout: 3 * time.Second}, func(d thingKind) thingKind {
			if d.Name == "b" {
				d.Create = func(ctx context.Context, _ scheduler.Key, _ schedulertest.Thing) (int, error) {
					began := time.Now()
					select {
					case <-ctx.Done():
					case <-time.After(time.Minute):
					}
					took.Store(int64(time.Since(began)))
					return 0, scheduler.Terminal(context.Cause(ctx))
				}
			}
			return d
		})
		r.Submit(scheduler.Txn{Want: changes("b/1 v1")})
		time.Sleep(2 * time.Minute)
		if took := time.Duration(took.Load()); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("the operation was told after %v, want 3s", took)
		}
	})
}

// Who finds somebody else at the loop's work leaves its input to the loop.
func TestCallersTakeTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		judging, goOn := make(chan struct{}), make(chan struct{})
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name == "a" {
				d.Validate = func(scheduler.Key, schedulertest.Thing) error {
					close(judging)
					<-goOn
					return scheduler.Invalid("", "it is refused")
				}
			}
			return d
		})
		first, second := make(chan struct{}), make(chan scheduler.Result)
		go func() { r.want("a/1 v1"); close(first) }()
		<-judging // somebody works for the loop, and nothing will come of it
		go func() { second <- r.want("b/1 v1") }()
		for range 100 {
			runtime.Gosched() // the bubble does not see who waits for a lock
		}
		close(goOn)
		<-first
		if res := <-second; !res.OK() {
			t.Errorf("%+v", res)
		}
	})
}
