package scheduler_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/sim"
)

// A day of changes and faults leaves nothing behind: memory and goroutines
// after the last hour are what they were after the first.
func TestDayOfChurn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		p := sim.NewPlayer()
		defer p.Close()
		n := 500
		if raceEnabled {
			n = 100
		}
		var heap, goroutines []int
		for hour := uint64(0); hour < 24; hour++ {
			for _, s := range sim.History(hour+1, sim.Profile{Steps: n}) {
				switch {
				case s.Do == "setup" && hour > 0:
					continue
				case s.Do == "wait":
					time.Sleep(36 * time.Second)
				}
				if err := p.Do(s); err != nil {
					t.Fatalf("hour %d: %v\n%s", hour, err, strings.Join(p.World.Lines(), "\n"))
				}
			}
			if err := p.Heal(); err != nil {
				t.Fatalf("hour %d: %v", hour, err)
			}
			p.World.Forget()
			h, g := footprint()
			heap, goroutines = append(heap, h), append(goroutines, g)
		}
		t.Logf("heap in KiB: %v, goroutines: %v", heap, goroutines)
		// Of the first and the last hours the smallest: room that is kept for the next time comes and goes.
		if first, last := slices.Min(heap[:4]), slices.Min(heap[20:]); last > first+first/4+128 {
			t.Errorf("the heap grew from %d KiB to %d KiB", first, last)
		}
		if first, last := goroutines[0], goroutines[len(goroutines)-1]; last > first {
			t.Errorf("goroutines grew from %d to %d", first, last)
		}
	})
}

// footprint is the heap in KiB and the number of goroutines.
func footprint() (heap, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc >> 10), runtime.NumGoroutine()
}
