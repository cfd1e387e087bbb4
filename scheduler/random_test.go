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
	from      = flag.Uint64("from", 1, "the first seed to play")
	histories = flag.Int("histories", 500, "how many random histories to play")
	steps     = flag.Int("steps", 40, "steps of a history")
	failures  = flag.Int("failures", 1, "how many failing histories to show")
)

// Whatever is written, in whatever order, whatever fails, is lost or changed
// by others: once faults stop, the world is what a dumb model says.
func TestRandomHistories(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that a seed plays the same history again
	first, last := *from, *from+uint64(*histories)-1
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for _, calm := range []bool{true, false} {
		name := map[bool]string{true: "calm", false: "chaos"}[calm]
		t.Run(name, func(t *testing.T) {
			counts, failed := map[string]int{}, 0
			for i := first; i <= last && failed < *failures; i++ {
				h := &schedulertest.History{Seed: i, Steps: *steps, Calm: calm}
				var err error
				synctest.Test(t, func(*testing.T) { err = h.Run() })
				if err != nil {
					failed++
					t.Errorf("%v\nplay it again with -run 'TestRandomHistories/%s' -seed %d", err, name, i)
				}
				for k, n := range h.Counts {
					counts[k] += n
				}
			}
			t.Log(counts)
		})
	}
}
