package scheduler_test

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/sim"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

var small = flag.Int("small", 0, "try all small graphs with at most that many keys at every place; 0: up to 3 keys, at some places")

// All small graphs, with every fault at every place: each operation fails in
// each way or is the last of its process, each event is lost, late or doubled.
func TestSmallGraphs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	tally, graphs, played, began := schedulertest.NewTally(), 0, 0, time.Now()
	try := func(h []sim.Step) *schedulertest.Tally {
		played++
		one := schedulertest.NewTally()
		if err := play(t, h, one); err != nil {
			t.Fatal(shrunk(t, h, err))
		}
		tally.Add(one)
		return one
	}
	most, stride := *small, 1
	if most == 0 {
		most, stride = 3, 4
		if raceEnabled {
			stride = 40
		}
	}
	places := 0
	for n := 1; n <= most; n++ {
		for h := range sim.Small(n) {
			graphs++
			clean := try(h)
			operations := clean.Get("create") + clean.Get("update") + clean.Get("delete")
			for h := range sim.Places(h, operations, clean.Get("events")) {
				if places++; places%stride == 0 {
					try(h)
				}
			}
		}
	}
	t.Logf("%d graphs, %d histories in %v%s", graphs, played, time.Since(began), table(tally))
}
