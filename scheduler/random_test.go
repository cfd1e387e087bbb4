package scheduler_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/internal/sim"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

var (
	seed      = flag.Uint64("seed", 0, "play only the history of this seed")
	from      = flag.Uint64("from", 1, "the first seed to play")
	histories = flag.Int("histories", 100, "how many random histories to play")
	steps     = flag.Int("steps", 60, "steps of a history")
	failures  = flag.Int("failures", 1, "how many failing histories to show")
	replay    = flag.String("replay", "testdata/replays/*.txt", "play the histories in these files")
	window    = flag.Int("window", 0, "of the operations that -replay lets begin at once; 0 is as ever")
	apart     = flag.Bool("apart", false, "only say of the -replay whether it fails")
)

// Whatever is written, in whatever order, whatever fails, is lost or changed
// by others: once faults stop, the actual state is what a dumb model says.
func TestRandomHistories(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that a seed plays the same history again
	defer narrow(0)
	first, last := *from, *from+uint64(*histories)-1
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for _, calm := range []bool{true, false} {
		name := map[bool]string{true: "calm", false: "chaos"}[calm]
		t.Run(name, func(t *testing.T) {
			tally, failed := schedulertest.NewTally(), 0
			for i := first; i <= last && failed < *failures; i++ {
				h := sim.History(i, sim.Profile{Steps: *steps, Calm: calm})
				narrow(windowOf(i))
				if err := play(t, h, tally); err != nil {
					failed++
					t.Errorf("seed %d: %s\nwith -window %d; play it again with -run 'TestRandomHistories/%s' -seed %d", i, shrunk(t, h, err), windowOf(i), name, i)
				}
			}
			t.Log(table(tally))
		})
	}
}

// windowOf is how many operations begin at once in the history of a seed: in
// most as many as always, which is all of them.
func windowOf(seed uint64) int { return []int{0, 0, 0, 1, 0, 0, 3, 0}[seed%8] }

func narrow(n int) {
	*window = n
	scheduler.SetWindow(n)
}

// TestReplay plays histories that were printed; by default such as failed once.
func TestReplay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	narrow(*window)
	defer narrow(0)
	files, err := filepath.Glob(*replay)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file is %q: %v", *replay, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h := sim.ParseSteps(string(text))
		if *apart {
			var f *sim.Failure
			if err := playOnce(t, h, schedulertest.NewTally()); errors.As(err, &f) {
				t.Errorf("failure %s", f.What)
			}
			return
		}
		if err := play(t, h, schedulertest.NewTally()); err != nil {
			t.Errorf("%s: %s", file, shrunk(t, h, err))
		}
	}
}

// play plays a history, and watches that it comes to an end.
func play(t *testing.T, h []sim.Step, tally *schedulertest.Tally) error {
	dog := time.AfterFunc(2*time.Minute, func() {
		if *worker > 0 {
			fmt.Println("it does not end")
			os.Exit(3)
		}
		fmt.Fprintf(os.Stderr, "it does not end:\n\n%s", sim.Script(shrinkApart(h, "no end")))
		os.Exit(3)
	})
	defer dog.Stop()
	return playOnce(t, h, tally)
}

// playOnce plays a history in a bubble of its own.
func playOnce(t *testing.T, h []sim.Step, tally *schedulertest.Tally) (err error) {
	scheduler.Audit(true)
	defer scheduler.Audit(false)
	synctest.Test(t, func(*testing.T) {
		p := sim.NewPlayer()
		err = p.Play(h)
		if e := p.Close(); err == nil && e != nil {
			err = e
		}
		tally.Add(p.Tally)
	})
	return err
}

// shrunk tells of a failing history, made small.
func shrunk(t *testing.T, h []sim.Step, err error) string {
	var f *sim.Failure
	if !errors.As(err, &f) {
		return fmt.Sprintf("%v\n%s", err, sim.Script(h))
	}
	small := sim.Shrink(h, 3000, func(h []sim.Step) bool {
		var now *sim.Failure
		return errors.As(play(t, h, schedulertest.NewTally()), &now) && now.What == f.What
	})
	var log string
	synctest.Test(t, func(*testing.T) {
		p := sim.NewPlayer()
		defer p.Close()
		err = p.Play(small)
		log = strings.Join(p.World.Lines(), "\n")
	})
	return fmt.Sprintf("%v\n%d steps, shrunk to %d:\n\n%s\nwhat happened:\n%s", err, len(h), len(small), sim.Script(small), log)
}

// shrinkApart shrinks a history that takes the process along: each try is a
// process of its own.
func shrinkApart(h []sim.Step, how string) []sim.Step {
	return sim.Shrink(h, 400, func(h []sim.Step) bool { return playApart(h) == how })
}

// playApart plays a history in another process. It returns "", "no end",
// "panic" or the class of the failure.
func playApart(h []sim.Step) string {
	file, err := os.CreateTemp("", "history")
	if err != nil {
		return err.Error()
	}
	defer os.Remove(file.Name())
	file.WriteString(sim.Script(h))
	file.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestReplay$", "-apart", "-window", strconv.Itoa(*window), "-replay", file.Name()).CombinedOutput()
	switch _, class, failed := strings.Cut(string(out), "failure "); {
	case ctx.Err() != nil:
		return "no end"
	case err == nil:
		return ""
	case failed:
		class, _, _ = strings.Cut(class, "\n")
		return class
	}
	return "panic"
}

func table(tally *schedulertest.Tally) string {
	var b strings.Builder
	for _, n := range tally.Names() {
		fmt.Fprintf(&b, "\n%8d %s", tally.Get(n), n)
	}
	return b.String()
}
