package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// watched is a running scheduler of a kind whose needs a test counts.
func watched(t *testing.T, needs func()) *scheduler.Scheduler {
	t.Helper()
	scheduler.Audit(true)
	t.Cleanup(func() { scheduler.Audit(false) })
	s := scheduler.New(scheduler.Options{})
	_, err := scheduler.Register(s, scheduler.Descriptor[item, struct{}]{
		Name: "v", Prefix: "v/",
		Create: func(context.Context, scheduler.Key, item) (struct{}, error) { return struct{}{}, nil },
		Delete: func(context.Context, scheduler.Key, item, struct{}) error { return nil },
		Needs:  func(scheduler.Key, item) []scheduler.Need { needs(); return nil },
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); check(t, <-done) })
	_, err = s.Apply(ctx, scheduler.Txn{Complete: true, Want: flat(10)})
	check(t, err)
	return s
}

// TestLargePreviewLeavesTheLoop: while a large preview is computed the loop does other work,
// also such that changes the graph.
func TestLargePreviewLeavesTheLoop(t *testing.T) {
	const keys = 5000
	var s *scheduler.Scheduler
	var calls, at atomic.Int64
	s = watched(t, func() {
		if calls.Add(1) != at.Load() {
			return
		}
		_, err := s.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set("v/other", item{})}})
		check(t, err)
		all, err := s.List(ctx)
		check(t, err)
		if len(all) != 11 {
			t.Errorf("%d keys", len(all))
		}
	})
	calls.Store(0)
	at.Store(2*scheduler.PreviewFree + 100)
	p, err := s.Preview(ctx, scheduler.Txn{Want: flat(keys)})
	check(t, err)
	if len(p.Steps) != keys-10 {
		t.Errorf("%d steps", len(p.Steps))
	}
}

// TestPreviewIsBounded: a preview that names too many keys is refused with the limit, before
// any work.
func TestPreviewIsBounded(t *testing.T) {
	var calls atomic.Int64
	s := watched(t, func() { calls.Add(1) })
	calls.Store(0)
	_, err := s.Preview(ctx, scheduler.Txn{Want: flat(scheduler.PreviewKeys + 1)})
	if !errors.Is(err, scheduler.ErrTooLarge) || calls.Load() > 0 {
		t.Errorf("after %d steps: %v", calls.Load(), err)
	}
}

// TestLargePlanIsExecuted: a plan that was made on a copy of the graph has the base of one
// that was made in the loop, so that it can be executed.
func TestLargePlanIsExecuted(t *testing.T) {
	s := watched(t, func() {})
	for _, want := range [][]scheduler.Change{flat(2000), tree(3000), chain(2500)} {
		p, err := s.Preview(ctx, scheduler.Txn{Want: want})
		check(t, err)
		res, err := s.Apply(ctx, scheduler.Txn{Want: want, Base: p.Base})
		check(t, err)
		if res.Deviation != nil {
			t.Errorf("%v", res.Deviation)
		}
	}
}

// TestPreviewWithoutPause: a preview that finds no pause to copy the graph ends with an error
// that says so, and one whose caller has gone ends too.
func TestPreviewWithoutPause(t *testing.T) { synctest.Test(t, withoutPause) }

func withoutPause(t *testing.T) {
	s := watched(t, func() {})
	gone, cancel := context.WithCancel(ctx)
	tries := 0
	scheduler.HaltAt(func(work int) bool { return work >= 20 })
	defer scheduler.HaltAt(nil)
	scheduler.CopyHaltAt(func(work int) bool {
		if work == 5 {
			if tries++; tries == 3 {
				cancel()
			}
		}
		return work >= 5
	})
	defer scheduler.CopyHaltAt(nil)
	if _, err := s.Preview(gone, scheduler.Txn{Want: flat(100)}); !errors.Is(err, context.Canceled) {
		t.Errorf("after %d tries: %v", tries, err)
	}
	if _, err := s.Preview(ctx, scheduler.Txn{Want: flat(100)}); !errors.Is(err, scheduler.ErrBusy) {
		t.Errorf("%v", err)
	}
}

// BenchmarkBesidesPreviews: how long a caller waits for the loop while another asks for large
// previews all the time, some of which are refused.
func BenchmarkBesidesPreviews(b *testing.B) {
	for _, n := range []int{1_000, 7_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := newBench(b, nil)
			defer x.stop()
			x.want(b, scheduler.Txn{Want: tree(10_000)})
			want := make([]scheduler.Change, n)
			for i := range want {
				want[i] = scheduler.Set(key(i), item{-1 - i, "hub/1"})
			}
			asking, stop := context.WithCancel(ctx)
			done := make(chan struct{})
			previews, failed := 0, 0
			go func() {
				defer close(done)
				for asking.Err() == nil {
					if _, err := x.Preview(asking, scheduler.Txn{Want: want}); err != nil {
						failed++
					} else {
						previews++
					}
				}
			}()
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				_, err := x.Get(ctx, key(1))
				check(b, err)
				took = append(took, time.Since(began))
				time.Sleep(time.Duration(len(took)%50) * time.Millisecond)
			}
			stop()
			<-done
			slices.Sort(took)
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(float64(previews), "previews")
			b.ReportMetric(float64(failed), "refused")
			beside(b, "p99 of the wait for the loop, ms", ms(took[len(took)*99/100]), 10, false)
			beside(b, "longest wait for the loop, ms", ms(took[len(took)-1]), 20, false)
		})
	}
}
