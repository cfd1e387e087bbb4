package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// Jitter is the share of a delay that is random: half of it below the backoff,
// half above, and the backoff itself doubles up to its bound.
func TestJitterIsABandAroundTheBackoff(t *testing.T) {
	const almost = 1 - 1e-9
	for _, c := range []struct {
		rand, jitter, share float64
		own                 *scheduler.Retries
	}{
		{rand: 0, share: 0.9}, // a fifth of it is random where nobody says more
		{rand: 0.5, share: 1},
		{rand: almost, share: 1.1},
		{rand: 0, jitter: 1, share: 0.5},
		{rand: almost, jitter: 1, share: 1.5},
		{rand: 0, jitter: 1, share: 0.8, own: &scheduler.Retries{Jitter: 0.4}},
		{rand: almost, jitter: 1, share: 1.2, own: &scheduler.Retries{Jitter: 0.4}},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := failing(t, scheduler.Options{Jitter: c.jitter, RetryMax: 5 * time.Second, Rand: func() float64 { return c.rand }}, c.own, 1)
			time.Sleep(time.Minute)
			at := tries()["x/0"]
			for i, backoff := range []time.Duration{1, 2, 4, 5, 5} {
				want := time.Duration(float64(backoff*time.Second) * c.share)
				if got := at[i+1] - at[i]; (got - want).Abs() > time.Microsecond {
					t.Errorf("rand %v, jitter %v, own %v: try %d came after %v, want %v", c.rand, c.jitter, c.own, i+2, got, want)
				}
			}
		})
	}
}

// Keys that fail at the same time are not tried again at the same time, and none
// outside of the band.
func TestRetriesSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		rng := newRand(1, 1)
		tries := failing(t, scheduler.Options{Rand: rng.Float64}, nil, n)
		time.Sleep(1500 * time.Millisecond)
		var second []time.Duration
		for k, at := range tries() {
			if len(at) != 2 || at[0] != 0 || at[1] < 900*time.Millisecond || at[1] > 1100*time.Millisecond {
				t.Errorf("%s was tried at %v, want at 0 and between 900ms and 1.1s", k, at)
				continue
			}
			second = append(second, at[1])
		}
		slices.Sort(second)
		if len(slices.Compact(slices.Clone(second))) != n || second[n-1]-second[0] < 100*time.Millisecond {
			t.Errorf("%d keys were tried again at %v: no spread", n, second)
		}
	})
}

// failing wants n keys that cannot be made, with retries as they are given, and
// returns what tells when each was tried.
func failing(t *testing.T, o scheduler.Options, own *scheduler.Retries, n int) func() map[scheduler.Key][]time.Duration {
	var mu sync.Mutex
	at := map[scheduler.Key][]time.Duration{}
	began := time.Now()
	d := plain("x")
	d.Create = func(_ context.Context, k scheduler.Key, _ string) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		at[k] = append(at[k], time.Since(began))
		return 0, errors.New("no")
	}
	r := run(t, o)
	_, err := scheduler.Register(r.Scheduler, d)
	r.check(err)
	var want []scheduler.Change
	for i := range n {
		want = append(want, scheduler.Set(scheduler.Key(fmt.Sprintf("x/%d", i)), "v"))
	}
	r.Submit(scheduler.Txn{Want: want, Retry: own})
	return func() map[scheduler.Key][]time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return at
	}
}
