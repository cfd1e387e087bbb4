package scheduler_test

import (
	"flag"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

var (
	seed      = flag.Uint64("seed", 0, "play only the history of this seed")
	histories = flag.Int("histories", 300, "how many random histories to play")
	steps     = flag.Int("steps", 40, "steps of a history")
)

// Whatever is written, in whatever order, whatever fails, is lost or changed
// by others: once faults stop, the world is what a dumb model says.
func TestRandomHistories(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that a seed plays the same history again
	for _, calm := range []bool{true, false} {
		name := map[bool]string{true: "calm", false: "chaos"}[calm]
		t.Run(name, func(t *testing.T) {
			counts := map[string]int{}
			first, last := uint64(1), uint64(*histories)
			if *seed != 0 {
				first, last = *seed, *seed
			}
			for i := first; i <= last; i++ {
				synctest.Test(t, func(t *testing.T) {
					h := &schedulertest.History{Seed: i, Steps: *steps, Calm: calm}
					if err := h.Run(); err != nil {
						t.Fatalf("%v\nplay it again with -run 'TestRandomHistories/%s' -seed %d", err, name, i)
					}
					for k, n := range h.Counts {
						counts[k] += n
					}
				})
				if t.Failed() {
					return
				}
			}
			t.Log(counts)
		})
	}
}
