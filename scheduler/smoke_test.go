package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

type T = schedulertest.Thing

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := schedulertest.NewWorld()
		s := scheduler.New(scheduler.Options{Sources: []string{"op"}})
		for _, d := range []scheduler.Descriptor[T, int]{
			w.Kind("a", schedulertest.Options{DerivedTo: "d"}), w.Kind("d", schedulertest.Options{}), w.Kind("o", schedulertest.Options{Observed: true}),
		} {
			if _, err := scheduler.Register(s, d); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		apply := func(c ...scheduler.Change) {
			r, err := s.Apply(ctx, scheduler.Txn{Source: "op", Want: c, Complete: len(c) == 0})
			fmt.Println("apply", err)
			for _, st := range r.Keys {
				fmt.Println("  ", st.Key, st.State, st.Reason, st.Missing)
			}
			fmt.Print(w)
		}
		apply()
		apply(scheduler.Set("a/1", T{Text: "x", Needs: []string{"o/1", "a/0"}}), scheduler.Set("a/0", T{Text: "z", Derives: []string{"p", "q"}}))
		w.Put("o/1", T{Text: "yes"}, true)
		time.Sleep(time.Second)
		synctest.Wait()
		fmt.Print(w)
		p, err := s.Preview(ctx, scheduler.Txn{Source: "op", Want: []scheduler.Change{scheduler.Withdraw("a/0")}})
		fmt.Println(p, err)
		w.Take("o/1", true)
		time.Sleep(time.Second)
		synctest.Wait()
		fmt.Print(w)
		c, err := s.Why(ctx, "a/1")
		fmt.Print(c, err, "\n")
		apply(scheduler.Set("a/2", T{Peer: "a/3"}))
		apply(scheduler.Set("a/3", T{Peer: "a/2"}))
		apply(scheduler.Withdraw("a/2"))
		apply(scheduler.Withdraw("a/0"))
		for _, r := range s.History(scheduler.HistoryQuery{}) {
			fmt.Print(r)
		}
		fmt.Println(w.Broken())
		cancel()
		fmt.Println(<-done)
	})
}
