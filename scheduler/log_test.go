package scheduler_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// At the start of a program, whom a kind asks may be a moment late: that is no
// news. A second failure is, and so is the first after the kind could be read.
func TestFirstFailedReadIsNoWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := run(t, scheduler.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
		fails := 1
		r.world.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
			if op == "look" && k == "x/" && fails > 0 {
				fails--
				return schedulertest.Fail
			}
			return schedulertest.None
		})
		warned := func(want bool, when string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := strings.Contains(log.String(), "cannot read the world"); got != want {
				t.Errorf("%s: warned %v: %s", when, got, log.String())
			}
			log.Reset()
		}
		_, err := scheduler.Register(r.Scheduler, r.world.Kind("x", schedulertest.Options{}))
		r.check(err)
		warned(false, "late once")
		fails = 1
		r.Submit(scheduler.Txn{LookAll: true})
		warned(true, "after it was read")
		r.check(r.Unregister("x"))
		fails = 2
		_, err = scheduler.Register(r.Scheduler, r.world.Kind("x", schedulertest.Options{}))
		r.check(err)
		warned(true, "late twice")
	})
}
