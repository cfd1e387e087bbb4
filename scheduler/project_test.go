package scheduler_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// ground is a system in which a plant survives the pot that it was planted in.
type ground struct {
	mu    sync.Mutex
	pot   int // its number, 0 if there is none
	plant int // the number of the pot that it was planted in, 0 if there is none
	made  int
	reads int           // of the plant
	hang  chan struct{} // makes pots wait
	log   []string
}

func (g *ground) pots() scheduler.Descriptor[string, int] {
	return scheduler.Descriptor[string, int]{
		Name: "pot", Prefix: "pot/",
		Create: func(context.Context, scheduler.Key, string) (int, error) {
			if g.hang != nil {
				<-g.hang
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.made++
			g.pot = g.made
			return g.pot, nil
		},
		Delete:   func(context.Context, scheduler.Key, string, int) error { return nil },
		Retrieve: read(g, "pot/x", func() int { return g.pot }),
	}
}

func (g *ground) plants() scheduler.Descriptor[string, int] {
	return scheduler.Descriptor[string, int]{
		Name: "plant", Prefix: "plant/",
		Create: func(context.Context, scheduler.Key, string) (int, error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.plant = g.pot
			g.log = append(g.log, fmt.Sprint("planted in ", g.pot))
			return 0, nil
		},
		Delete: func(context.Context, scheduler.Key, string, int) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.plant = 0
			g.log = append(g.log, "taken out")
			return nil
		},
		Needs: func(scheduler.Key, string) []scheduler.Need {
			return []scheduler.Need{scheduler.Project(scheduler.On("pot/x", "to stand in"), func(_ string, number int) string { return fmt.Sprint(number) })}
		},
		Retrieve: read(g, "plant/y", func() int { g.reads++; return g.plant }),
	}
}

// read is a Retrieve of one key, which is there if its number is not 0.
func read(g *ground, k scheduler.Key, number func() int) func(context.Context, scheduler.Scope[string, int]) iter.Seq2[scheduler.Found[string, int], error] {
	return func(context.Context, scheduler.Scope[string, int]) iter.Seq2[scheduler.Found[string, int], error] {
		return func(yield func(scheduler.Found[string, int], error) bool) {
			g.mu.Lock()
			n := number()
			g.mu.Unlock()
			if n != 0 {
				yield(scheduler.Found[string, int]{Key: k, Value: "v", Meta: n}, nil)
			}
		}
	}
}

// What is read while the thing that it was built with is being made anew does
// not forget what it was built with.
func TestReadWhileItsGroundIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &ground{}
		r := g.run(t)
		g.mu.Lock()
		g.pot, g.hang = 0, make(chan struct{})
		g.mu.Unlock()
		r.Submit(scheduler.Txn{Look: []scheduler.Key{"pot/x"}})
		synctest.Wait() // the plant is read, the pot is being made
		close(g.hang)
		synctest.Wait()
		if want := []string{"planted in 1", "taken out", "planted in 2"}; !slices.Equal(g.log, want) {
			t.Errorf("%q, want %q", g.log, want)
		}
	})
}

// What is known to be outdated is not read each time that what it was built with is.
func TestOutdatedIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &ground{}
		r := g.run(t)
		r.check(r.Pause("plant/y", "it is admired", time.Time{}))
		g.mu.Lock()
		g.pot, g.reads = 7, 0
		g.mu.Unlock()
		for range 3 {
			r.Submit(scheduler.Txn{Look: []scheduler.Key{"pot/x"}})
			synctest.Wait()
		}
		if g.reads != 1 {
			t.Errorf("the plant was read %d times", g.reads)
		}
	})
}

// run runs a scheduler that has planted the plant in a pot.
func (g *ground) run(t *testing.T) *running {
	r := run(t, scheduler.Options{})
	for _, d := range []scheduler.Descriptor[string, int]{g.pots(), g.plants()} {
		_, err := scheduler.Register(r.Scheduler, d)
		r.check(err)
	}
	_, err := r.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set("plant/y", "v"), scheduler.Set("pot/x", "v")}})
	r.check(err)
	return r
}
