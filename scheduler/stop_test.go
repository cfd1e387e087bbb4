package scheduler_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{StopTimeout: 3 * time.Second})
		r.hang("create", "a/1")
		h := r.Submit(scheduler.Txn{Want: changes("a/1 v1")})
		w := r.Watch()
		synctest.Wait()
		began := time.Now()
		err := r.stop()
		if err == nil || !strings.Contains(err.Error(), "a/1") || time.Since(began) != 3*time.Second {
			t.Errorf("Run returned %v after %v, want it to name a/1 after 3s", err, time.Since(began))
		}
		if _, err := h.Wait(ctx); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("the waiting transaction got %v", err)
		}
		if _, err := r.Apply(ctx, scheduler.Txn{Want: changes("a/2 v1")}); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("a late transaction got %v", err)
		}
		if _, err := r.Get(ctx, "a/1"); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("Get: %v", err)
		}
		if _, _, err := w.Next(ctx); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("Next: %v", err)
		}
		if err := r.Run(ctx); err == nil {
			t.Error("a scheduler ran twice")
		}
	})
}

// A read that is still running at the end is named by its kind, as it has no key.
func TestStopDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{StopTimeout: 3 * time.Second})
		r.hang("look", "a/")
		r.Submit(scheduler.Txn{LookAll: true})
		synctest.Wait()
		if err := r.stop(); err == nil || !strings.Contains(err.Error(), "kind a") {
			t.Errorf("Run returned %v, want it to name the read of kind a", err)
		}
		r.world.NoFaults()
	})
}
