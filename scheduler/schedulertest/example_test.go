package schedulertest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// A test of an embedder: what is built on a scheduler is tried on a system that fails.
func TestWorldOfAnEmbedder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := schedulertest.NewWorld(), scheduler.New(scheduler.Options{})
		for _, name := range []string{"bridge", "port"} {
			if _, err := scheduler.Register(s, w.Kind(name, schedulertest.Options{})); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer func() { stop(); <-done }()

		order, err := schedulertest.ParseOrder("create bridge/1: fail twice")
		if err != nil {
			t.Fatal(err)
		}
		w.Order(order)
		s.Submit(scheduler.Txn{Complete: true, Want: []scheduler.Change{
			scheduler.Set("port/1", schedulertest.Thing{Text: "up", Needs: []string{"bridge/1"}}),
			scheduler.Set("bridge/1", schedulertest.Thing{Text: "up"}),
		}})
		time.Sleep(time.Minute)
		if there := fmt.Sprint(w); there != "bridge/1=up\nport/1=up\n" {
			t.Errorf("there is\n%s", there)
		}
		if broken := w.Broken(); len(broken) > 0 {
			t.Errorf("laws are broken: %v", broken)
		}
	})
}

func ExampleParseOrder() {
	o, err := schedulertest.ParseOrder("create a/1: fail twice")
	fmt.Println(o.Op, o.Target, o.Fault, o.Times, err)
	// Output: create a/1 fail 2 <nil>
}
