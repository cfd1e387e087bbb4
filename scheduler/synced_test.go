package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestWaitForSourcesAndKinds: who waits is woken by the last complete snapshot, and by the
// first whole read of each kind; who gives up is told what is missing.
func TestWaitForSourcesAndKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, world := scheduler.New(scheduler.Options{Sources: []string{"files", "etcd"}}), schedulertest.NewWorld()
		for _, name := range []string{"a", "b"} {
			if _, err := scheduler.Register(s, world.Kind(name, schedulertest.Options{})); err != nil {
				t.Fatal(err)
			}
		}
		world.SetFault(func(op string, k scheduler.Key) schedulertest.Fault {
			if op == "look" && strings.HasPrefix(string(k), "b") {
				return schedulertest.Fail
			}
			return schedulertest.None
		})
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(running) }()
		await := func(wait func(context.Context, ...string) error, names ...string) chan error {
			ended := make(chan error, 1)
			go func() { ended <- wait(running, names...) }()
			return ended
		}
		open := func(what string, ended chan error, yes bool) {
			t.Helper()
			synctest.Wait()
			if (len(ended) == 0) != yes {
				t.Errorf("%s: waiting is %v, want %v", what, len(ended) == 0, yes)
			}
		}
		gaveUp := func(wait func(context.Context, ...string) error, want string, names ...string) {
			t.Helper()
			short, cancel := context.WithTimeoutCause(running, time.Millisecond, errors.New("timed out"))
			defer cancel()
			if err := wait(short, names...); err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}

		all, etcd := await(s.WaitForSources), await(s.WaitForSources, "etcd")
		s.Submit(scheduler.Txn{Source: "etcd", Want: changes("a/1 v1")})
		open("not complete", etcd, true)
		s.Submit(scheduler.Txn{Source: "etcd", Complete: true})
		open("etcd", etcd, false)
		open("all", all, true)
		gaveUp(s.WaitForSources, "sources not synced: files: timed out")
		s.Submit(scheduler.Txn{Source: "files", Complete: true})
		open("all", all, false)

		kinds, a := await(s.WaitForKinds), await(s.WaitForKinds, "a")
		open("a", a, false)
		open("b cannot be read", kinds, true)
		gaveUp(s.WaitForKinds, "kinds not read: b: timed out")
		world.SetFault(nil)
		time.Sleep(time.Minute)
		open("b can be read", kinds, false)

		s.Submit(scheduler.Txn{Source: "etcd"})
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.WaitForKinds(t.Context()); !errors.Is(err, scheduler.ErrStopped) {
			t.Error(err)
		}
	})
}
