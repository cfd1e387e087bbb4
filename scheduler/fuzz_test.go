package scheduler_test

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/plumb-net/plumb/scheduler/internal/sim"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// The fuzzer throws the dice: the same histories, but those that reach new
// code of the scheduler are bred from.
func FuzzHistories(f *testing.F) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 0))
		dice := make([]byte, 100*seed)
		for i := range dice {
			dice[i] = byte(rng.IntN(256))
		}
		f.Add(dice)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		h := sim.Generate(&bytes{data}, sim.Profile{Steps: min(len(data)/4, 80)})
		if err := play(t, h, schedulertest.NewTally()); err != nil {
			t.Error(shrunk(t, h, err))
		}
	})
}

// bytes are dice; when they have run out they show the lowest side.
type bytes struct{ left []byte }

func (b *bytes) IntN(n int) int {
	if len(b.left) == 0 {
		return 0
	}
	i := int(b.left[0])
	if b.left = b.left[1:]; n > 256 && len(b.left) > 0 {
		i = i<<8 + int(b.left[0])
		b.left = b.left[1:]
	}
	return i % n
}
