package scheduler_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/internal/sim"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// What the engine plans with its graph is what a planner finds that looks at
// everything, every time, and shares no code with it.
func TestPlansAgainstFullPlanner(t *testing.T) {
	steps, replaced, copied := 0, 0, 0
	halting := newRand(0, 5) // some previews are taken back half done, and start again on a copy
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, scheduler.Options{})
			rng := newRand(seed, 4)
			m := sim.NewModel(1)
			m.Register("a", "d")
			for range 30 {
				if rng.IntN(4) == 0 {
					moveObserved(r, rng)
				}
				txn := scheduler.Txn{Want: changes(randomWants(rng)...)}
				m.Note(0, txn)
				before := picture(t, r)
				leaves := leaveLoop(halting.IntN(40))
				p, err := r.Preview(ctx, txn)
				r.check(err)
				copied += leaves()
				all, err := r.List(ctx)
				r.check(err)
				m.Own(r.world.Objects(), all)
				full := m.Plan(r.world.Objects(), func(string) bool { return true })
				err = full.Check(p, func(n int) int { return n - 1 }, rng.IntN)
				if err == nil {
					err = checkEffects(r, full, p)
				}
				if err != nil {
					t.Fatalf("seed %d: %v\ntxn: %v\nplan:\n%s\nmust: - %v + %v ~ %v\nmay: %v\nbefore:\n%s", seed, err, txn.Want, p,
						slices.Sorted(maps.Keys(full.Delete)), slices.Sorted(maps.Keys(full.Create)),
						slices.Sorted(maps.Keys(full.Update)), slices.Sorted(maps.Keys(full.May)), before)
				}
				steps += len(p.Steps)
				for k := range full.Delete {
					if full.Create[k] {
						replaced++
					}
				}
				_, err = r.Apply(ctx, txn)
				r.check(err)
				time.Sleep(time.Minute)
				synctest.Wait()
			}
		})
		if t.Failed() {
			return
		}
	}
	if steps < 3000 || replaced < 50 || copied < 300 {
		t.Errorf("only %d steps and %d replacements were planned, and %d previews were made on copies: the test shows little", steps, replaced, copied)
	}
}

// leaveLoop has the next preview leave the loop at a step of its work, half done, and the
// first copy of the graph end at that step too; times reports whether the preview did.
func leaveLoop(at int) (times func() int) {
	left, ended := 0, 0
	scheduler.HaltAt(func(work int) bool {
		if left > 0 || work != at {
			return false
		}
		left++
		return true
	})
	scheduler.CopyHaltAt(func(work int) bool {
		if ended > 0 || work != at {
			return false
		}
		ended++
		return true
	})
	return func() int { scheduler.HaltAt(nil); scheduler.CopyHaltAt(nil); return left }
}

func moveObserved(r *running, rng *rand.Rand) {
	k := scheduler.Key(fmt.Sprintf("o/%d", rng.IntN(2)))
	if rng.IntN(2) == 0 {
		r.world.Take(k, true)
	} else {
		r.world.Put(k, schedulertest.Thing{Text: "v1"}, true)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
}

// randomWants are the lines of randomLines, and some with peers and with needs
// for what is observed.
func randomWants(rng *rand.Rand) []string {
	lines := randomLines(rng)
	for i, l := range lines {
		key, rest, _ := strings.Cut(l, " ")
		if strings.HasPrefix(rest, "-") || strings.Contains(rest, "needs=") || !strings.HasPrefix(key, "a/") {
			continue
		}
		switch rng.IntN(4) {
		case 0:
			lines[i] += fmt.Sprintf(" needs=o/%d", rng.IntN(2))
		case 1:
			n := int(key[2] - '0')
			lines[i] += fmt.Sprintf(" peer=a/%d", n^1)
		}
	}
	return lines
}

// checkEffects: exactly what is there at the end, as it is wanted, would
// be configured.
func checkEffects(r *running, full sim.FullPlan, p scheduler.Plan) error {
	all, err := r.List(ctx)
	r.check(err)
	states := map[scheduler.Key]scheduler.State{}
	for _, s := range all {
		states[s.Key] = s.State
	}
	for _, f := range p.Effects {
		if was := states[f.Key]; was != f.Was {
			return fmt.Errorf("%s is %v, not %v", f.Key, was, f.Was)
		}
		states[f.Key] = f.State
	}
	for k, s := range states {
		if _, in := full.End[k]; s == scheduler.Configured && !in {
			return fmt.Errorf("%s would be configured and not be there", k)
		}
	}
	for k := range full.End {
		if s := states[k]; s != scheduler.Configured && s != scheduler.Observed && s != scheduler.InvalidState && !partMissing(k, states) {
			return fmt.Errorf("%s would be %v and be there", k, s)
		}
	}
	return nil
}

// partMissing reports whether something that the key derives would not be there.
func partMissing(k scheduler.Key, states map[scheduler.Key]scheduler.State) bool {
	parts := "d/" + strings.TrimPrefix(string(k), "a/") + "/"
	for d, s := range states {
		if strings.HasPrefix(string(d), parts) && s != scheduler.Configured {
			return true
		}
	}
	return false
}
