package scheduler_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// One operation that hangs has its place taken by another, and so has the next
// one, however far the deadline of the first is away.
func TestEachHangIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{Workers: 1})
		r.world.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
			if op == "create" && k != "a/9" {
				return schedulertest.Hang
			}
			return schedulertest.None
		})
		for _, k := range []string{"a/1", "a/2", "a/3"} {
			r.Submit(scheduler.Txn{Want: changes(k + " v1")})
			time.Sleep(20 * time.Millisecond)
		}
		began := time.Now()
		res := r.want("a/9 v1")
		if took := time.Since(began); !res.OK() || took > 20*time.Millisecond {
			t.Errorf("beside three operations that hang another took %v: %v", took, res.Keys)
		}
		r.world.Release()
	})
}

// A batch is alone on the lanes of all that is in it; what comes meanwhile for one
// of them waits, and is a batch as well.
func TestBatchesKeepToTheirLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches []string
		gate := make(chan struct{})
		s := scheduler.New(scheduler.Options{})
		_, err := scheduler.Register(s, scheduler.Descriptor[string, int]{
			Name: "x", Prefix: "x/",
			Lane:   func(_ scheduler.Key, v string) string { return v },
			Create: func(context.Context, scheduler.Key, string) (int, error) { panic("one by one") },
			Delete: func(context.Context, scheduler.Key, string, int) error { return nil },
			CreateBatch: func(_ context.Context, ops []*scheduler.Op[string, int]) {
				var keys []string
				for _, o := range ops {
					keys = append(keys, string(o.Key))
				}
				batches = append(batches, strings.Join(keys, " "))
				if slices.Contains(keys, "x/1") {
					<-gate
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		want := func(changes ...scheduler.Change) {
			s.Submit(scheduler.Txn{Want: changes})
			synctest.Wait()
		}
		want(scheduler.Set("x/1", "left"), scheduler.Set("x/2", "right"), scheduler.Set("x/3", "left"))
		want(scheduler.Set("x/4", "left"), scheduler.Set("x/5", "middle"))
		want(scheduler.Set("x/6", "left"), scheduler.Set("x/7", ""))
		close(gate)
		synctest.Wait() // two batches may run at the same time
		want(scheduler.Set("x/8", "right"))
		got := strings.Join(batches, "\n")
		if want := "x/1 x/2 x/3\nx/5\nx/7\nx/4 x/6\nx/8"; got != want {
			t.Errorf("the batches were\n%s\nwant\n%s", got, want)
		}
	})
}

// Who sorts a batch gives each key its own answer all the same.
func TestSortedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runKinds(t, scheduler.Options{}, func(d scheduler.Descriptor[schedulertest.Thing, int]) scheduler.Descriptor[schedulertest.Thing, int] {
			if d.Name != "a" {
				return d
			}
			d.CreateBatch = func(_ context.Context, ops []*scheduler.Op[schedulertest.Thing, int]) {
				slices.Reverse(ops)
				for _, o := range ops {
					if o.Meta = 1; o.Value.Text == "no" {
						o.Err = scheduler.Terminal(schedulertest.ErrFault)
					}
				}
			}
			return d
		})
		res := r.want("a/1 yes", "a/2 yes", "a/3 no")
		for _, s := range res.Keys {
			if failed := s.State == scheduler.Failed; failed != (s.Key == "a/3") {
				t.Errorf("%s is %s", s.Key, s.State)
			}
		}
	})
}
