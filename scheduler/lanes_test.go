package scheduler_test

import (
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
