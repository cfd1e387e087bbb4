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

// Who changes what is ours is in the log, and that a repair has to wait because of him.
func TestWhoChangedItIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := run(t, scheduler.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
		_, err := scheduler.Register(r.Scheduler, r.world.Kind("x", schedulertest.Options{}))
		r.check(err)
		_, err = r.Apply(t.Context(), scheduler.Txn{Want: []scheduler.Change{scheduler.Set("x/1", schedulertest.Thing{Text: "v1"})}})
		r.check(err)
		synctest.Wait()
		for range 4 {
			r.world.Blame("x/1", "ip (process 4711)")
			r.world.Put("x/1", schedulertest.Thing{Text: "other"}, true)
			synctest.Wait()
		}
		for text, want := range map[string]int{
			`level=INFO msg="somebody else changed it" key=x/1 by="ip (process 4711)"`:                              3,
			`level=WARN msg="somebody else changes it again and again" key=x/1 by="ip (process 4711)" next_try_in=`: 1,
		} {
			if got := strings.Count(log.String(), text); got != want {
				t.Errorf("%d times %s in\n%s", got, text, log.String())
			}
		}
	})
}

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
			if got := strings.Contains(log.String(), "cannot read the actual state"); got != want {
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

// TestTransactionsAreLogged: one line for each that did something, when it has come to rest,
// with what came of it; a further try is told once more. What did nothing is not told.
func TestTransactionsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		hide := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}
		r := run(t, scheduler.Options{RetryMin: time.Minute, Timeout: time.Hour,
			Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: hide}))})
		logged := func(when, want string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for line := range strings.Lines(log.String()) {
				if strings.HasPrefix(line, "msg=transaction ") {
					got = append(got, strings.TrimSpace(strings.TrimPrefix(line, "msg=transaction ")))
				}
			}
			if log.Reset(); strings.Join(got, "\n") != want {
				t.Errorf("%s: got\n%s\nwant\n%s", when, strings.Join(got, "\n"), want)
			}
		}
		logged("before anything is wanted", "")
		_, err := r.Apply(ctx, scheduler.Txn{Note: "a site", Want: changes("a/1 v1", "a/2 v1 needs=a/1", "b/1 v1 needs=c/1")})
		r.check(err)
		logged("what needs each other", `seq=2 source="" note="a site" keys=3 operations=2 errors=0 took=0s`)
		r.want("a/1 v1")
		logged("nothing to do", "")

		r.hang("create", "b/2")
		r.Submit(scheduler.Txn{Want: changes("b/2 v1", "b/3 v1")})
		logged("one hangs", "")
		time.Sleep(time.Second)
		r.world.SetFault(nil)
		r.world.Release()
		logged("it hangs no more", `seq=4 source="" keys=2 operations=2 errors=0 took=1s`)

		r.world.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
			if op == "create" && k == "b/4" {
				return schedulertest.Fail
			}
			return schedulertest.None
		})
		r.want("b/4 v1")
		logged("it fails", `seq=5 source="" keys=1 operations=1 errors=1 took=0s`)
		r.world.SetFault(nil)
		time.Sleep(2 * time.Minute)
		logged("it is tried again", `seq=5 source="" keys=1 operations=1 errors=0 took=0s`)

		r.world.Take("a/2", true)
		logged("somebody removes something", `seq=6 source=a note="change seen" keys=1 operations=1 errors=0 took=0s`)
	})
}

// TestHangingTransactionIsLogged: an operation that runs past its deadline has failed, and
// its end is told no more.
func TestHangingTransactionIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := run(t, scheduler.Options{Timeout: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		r.hang("create", "a/1")
		r.Submit(scheduler.Txn{Want: changes("a/1 v1", "a/2 v1")})
		time.Sleep(time.Minute)
		r.world.SetFault(nil)
		r.world.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		want := `msg=transaction seq=2 source="" keys=2 operations=2 errors=1 took=`
		if got := log.String(); strings.Count(got, "msg=transaction seq=2 ") != 1 || !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant once\n%s", got, want)
		}
	})
}

// TestFailuresAreLogged: with when the next try is, if there is one.
func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := run(t, scheduler.Options{RetryMin: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))})
		r.world.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
			switch {
			case op == "create" && k == "a/1":
				return schedulertest.Fail
			case op == "create" && k == "a/2":
				return schedulertest.FailForever
			}
			return schedulertest.None
		})
		r.want("a/1 v1", "a/2 v1")
		synctest.Wait()
		for key, next := range map[string]bool{"a/1": true, "a/2": false} {
			var found bool
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, `msg="operation failed"`) && strings.Contains(line, "key="+key) {
					if found = true; strings.Contains(line, "next_try_in=") != next {
						t.Errorf("a next try of %s is told: %v; want %v: %s", key, !next, next, line)
					}
				}
			}
			if !found {
				t.Errorf("nothing is logged of %s: %s", key, log.String())
			}
		}
	})
}
