package scheduler_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

var (
	seed      = flag.Uint64("seed", 0, "play only the history of this seed")
	from      = flag.Uint64("from", 1, "the first seed to play")
	histories = flag.Int("histories", 1500, "how many random histories to play")
	steps     = flag.Int("steps", 60, "steps of a history")
	failures  = flag.Int("failures", 1, "how many failing histories to show")
	replay    = flag.String("replay", "", "play the history in this file")
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
			tally, failed := schedulertest.NewTally(), 0
			for i := first; i <= last && failed < *failures; i++ {
				h := schedulertest.History(i, schedulertest.Profile{Steps: *steps, Calm: calm})
				if err := play(t, h, tally); err != nil {
					failed++
					t.Errorf("seed %d: %s\nplay it again with -run 'TestRandomHistories/%s' -seed %d", i, shrunk(t, h, err), name, i)
				}
			}
			t.Log(table(tally))
		})
	}
}

// TestReplay plays a history that was printed.
func TestReplay(t *testing.T) {
	if *replay == "" {
		t.Skip("no -replay")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	text, err := os.ReadFile(*replay)
	if err != nil {
		t.Fatal(err)
	}
	h := schedulertest.ParseSteps(string(text))
	if err := play(t, h, schedulertest.NewTally()); err != nil {
		t.Error(shrunk(t, h, err))
	}
}

// play plays a history in a bubble of its own.
func play(t *testing.T, h []schedulertest.Step, tally *schedulertest.Tally) (err error) {
	synctest.Test(t, func(*testing.T) {
		p := schedulertest.NewPlayer()
		err = p.Play(h)
		if e := p.Close(); err == nil && e != nil {
			err = e
		}
		tally.Add(p.Tally)
	})
	return err
}

// shrunk tells of a failing history, made small.
func shrunk(t *testing.T, h []schedulertest.Step, err error) string {
	var f *schedulertest.Failure
	if !errors.As(err, &f) {
		return fmt.Sprintf("%v\n%s", err, schedulertest.Script(h))
	}
	small := schedulertest.Shrink(h, 3000, func(h []schedulertest.Step) bool {
		var now *schedulertest.Failure
		return errors.As(play(t, h, schedulertest.NewTally()), &now) && now.What == f.What
	})
	err = nil
	var log string
	synctest.Test(t, func(*testing.T) {
		p := schedulertest.NewPlayer()
		defer p.Close()
		err = p.Play(small)
		log = strings.Join(p.World.Lines(), "\n")
	})
	return fmt.Sprintf("%v\n%d steps, shrunk to %d:\n\n%s\nwhat happened:\n%s", err, len(h), len(small), schedulertest.Script(small), log)
}

func table(tally *schedulertest.Tally) string {
	var b strings.Builder
	for _, n := range tally.Names() {
		fmt.Fprintf(&b, "\n%8d %s", tally.Get(n), n)
	}
	return b.String()
}
