package scheduler_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// What was done and is held because its turn has not come is not forgotten when
// the scheduler stops.
func TestStopWithinAPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.hang("create", "a/1")
		txn := scheduler.Txn{Want: changes("a/1 v1", "a/2 v1", "b/2 v1 needs=a/2")}
		p, err := r.Preview(ctx, txn)
		r.check(err)
		txn.Base = p.Base
		h := r.Submit(txn)
		time.Sleep(10 * time.Millisecond)
		if err := r.stop(); err == nil || !strings.Contains(err.Error(), "a/1") {
			t.Errorf("the end: %v", err)
		}
		if _, err := h.Wait(ctx); err != scheduler.ErrStopped {
			t.Errorf("who waits for a plan hears %v", err)
		}
		all := r.History(scheduler.HistoryQuery{Key: "a/2"})
		if len(all) != 1 || len(all[0].Done) != 1 || all[0].Deviation == nil || all[0].Deviation.Step != 1 {
			t.Errorf("history: %v", all)
		}
		r.world.Release()
		synctest.Wait()
	})
}

// Plans that are executed at the same time, and changes without a plan, on the
// same keys: in the end all is as it should be, and nobody waits for ever.
func TestPlansAtOnce(t *testing.T) {
	deviated := 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := runKinds(t, scheduler.Options{Workers: 1 + int(seed%4)}, unevenly(seed))
			rng := newRand(seed, 3)
			var handles []*scheduler.Handle
			for range 30 {
				txn := scheduler.Txn{Want: changes(randomLines(rng)...)}
				if rng.IntN(3) > 0 {
					p, err := r.Preview(ctx, txn)
					r.check(err)
					txn.Base = p.Base
				}
				handles = append(handles, r.Submit(txn))
				switch rng.IntN(12) {
				case 0:
					r.check(r.Pause("a/1", "busy", time.Now().Add(time.Second)))
				case 1:
					r.Submit(scheduler.Txn{LookAll: true})
				}
				time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			for i, h := range handles {
				select {
				case <-h.Done():
				default:
					t.Fatalf("seed %d: transaction %d of %d is not settled", seed, i, len(handles))
				}
				if res, err := h.Wait(ctx); err == nil && res.Deviation != nil {
					deviated++
				}
			}
			if broken := r.world.Broken(); len(broken) > 0 {
				t.Fatalf("seed %d: %v", seed, broken)
			}
			if err := restless(r); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		})
		if t.Failed() {
			return
		}
	}
	if deviated == 0 {
		t.Error("no plan was left: the test shows nothing")
	}
	t.Logf("%d plans were left", deviated)
}

// A plan whose changes come to the scheduler through its source, as an operator
// writes them into a store.
func TestExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		lines := []string{"a/1 v1 needs=b/1", "b/1 v1", "a/2 v1"}
		expect := func() *scheduler.Handle {
			txn := scheduler.Txn{Want: changes(lines...)}
			p, err := r.Preview(ctx, txn)
			r.check(err)
			txn.Base = p.Base
			return r.Expect(txn)
		}
		h := expect()
		r.want("a/2 v2") // another transaction
		r.want("a/2 -")
		r.want(lines[2], lines[0], lines[1])
		res, err := h.Wait(ctx)
		if err != nil || !res.OK() || res.Deviation != nil || !h.Forget() {
			t.Errorf("the transaction that was expected: %v, %v", res, err)
		}

		r.want("a/1 -", "b/1 -", "a/2 -")
		h = expect()
		r.want("b/1 v0")
		if res := r.want(lines...); res.Deviation == nil || !strings.Contains(res.Deviation.Why, "b/1") || !res.OK() {
			t.Errorf("what is in the store is done, as a plan or not: %v", res)
		}
		if res, err := h.Wait(ctx); err != nil || res.Deviation == nil {
			t.Errorf("and it is told: %v, %v", res, err)
		}

		r.want("a/1 -")
		h = expect()
		if h.Forget() {
			t.Error("it has not come")
		}
		if res := r.want(lines...); res.Deviation != nil {
			t.Errorf("nothing was expected any more: %v", res.Deviation)
		}
		h = expect()
		r.check(r.stop())
		if _, err := h.Wait(ctx); err != scheduler.ErrStopped {
			t.Errorf("after the end: %v", err)
		}
	})
}
