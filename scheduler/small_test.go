package scheduler_test

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

var small = flag.Int("small", 2, "the most keys of the small graphs that are tried one by one")

// All small graphs, with every fault at every place: each operation fails in
// each way or is the last of its process, each event is lost, late or doubled.
func TestSmallGraphs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	tally, graphs, played, began := schedulertest.NewTally(), 0, 0, time.Now()
	try := func(h []schedulertest.Step) *schedulertest.Tally {
		played++
		one := schedulertest.NewTally()
		if err := play(t, h, one); err != nil {
			t.Fatal(shrunk(t, h, err))
		}
		tally.Add(one)
		return one
	}
	for n := 1; n <= *small; n++ {
		for h := range schedulertest.Small(n) {
			graphs++
			clean := try(h)
			operations := clean.Get("create") + clean.Get("update") + clean.Get("delete")
			for h := range schedulertest.Places(h, operations, clean.Get("events")) {
				try(h)
			}
		}
	}
	t.Logf("%d graphs, %d histories in %v%s", graphs, played, time.Since(began), table(tally))
}
