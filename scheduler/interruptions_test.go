package scheduler_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/internal/sim"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Kinds come and go, keys are paused, operations wait for keys, hang, or say
// that there is nothing, what is observed flaps: once all that is over, the
// actual state is what a dumb model says.
func TestRandomInterruptions(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first, last := *from, *from+uint64(*histories)/5-1
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for i := first; i <= last && !t.Failed(); i++ {
		synctest.Test(t, func(t *testing.T) { interrupt(t, i) })
	}
}

// interrupted is one such history.
type interrupted struct {
	*running
	rng    *rand.Rand
	model  *sim.Model
	away   map[string]bool
	paused []scheduler.Key
	calm   atomic.Bool
}

func interrupt(t *testing.T, seed uint64) {
	h := &interrupted{rng: rand.New(rand.NewPCG(seed, 7)), model: sim.NewModel(1), away: map[string]bool{}}
	for kind, derived := range map[string]string{"a": "d", "b": "", "d": "", "o": ""} {
		h.model.Register(kind, derived)
	}
	h.running = run(t, scheduler.Options{Workers: 2, Rand: func() float64 { return 0.5 },
		Policies: []scheduler.Policy{{Keys: "o/1", HoldDown: 2 * time.Second}, {Keys: "b/", Audit: 7 * time.Second}}})
	faults := rand.New(rand.NewPCG(seed, 8)) // used under the lock of the World
	h.world.SetFault(func(op string, _ scheduler.Key) schedulertest.Fault {
		switch {
		case h.calm.Load() || faults.IntN(5) > 0:
			return schedulertest.None
		case op == "look":
			return []schedulertest.Fault{schedulertest.Fail, schedulertest.Hang}[faults.IntN(2)]
		}
		return []schedulertest.Fault{schedulertest.Fail, schedulertest.FailAfter, schedulertest.Hang,
			schedulertest.FailBlocked, schedulertest.Panic}[faults.IntN(5)]
	})
	for range 60 {
		h.step()
		if h.rng.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	h.heal()
	if problem := h.problem(); problem != "" {
		lines := h.world.Lines()
		t.Errorf("seed %d: %s\n%s", seed, problem, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

func (h *interrupted) step() {
	key := scheduler.Key(fmt.Sprintf("%s/%d", []string{"a", "b"}[h.rng.IntN(2)], h.rng.IntN(4)))
	switch h.rng.IntN(10) {
	case 0:
		h.toggle([]string{"a", "b", "d", "o"}[h.rng.IntN(4)])
	case 1:
		target := []scheduler.Key{key, "a/", "b/"}[h.rng.IntN(3)]
		h.check(h.Pause(target, "for a while", time.Now().Add(time.Duration(h.rng.IntN(5))*time.Second)))
		h.paused = append(h.paused, target)
	case 2:
		if len(h.paused) > 0 {
			if err := h.Resume(h.paused[h.rng.IntN(len(h.paused))]); !errors.Is(err, scheduler.ErrNotPaused) {
				h.check(err)
			}
		}
	case 3:
		h.world.Release()
	case 4, 5:
		o := scheduler.Key(fmt.Sprintf("o/%d", h.rng.IntN(3)))
		if h.rng.IntN(2) == 0 {
			h.world.Take(o, true)
		} else {
			h.world.Put(o, schedulertest.Thing{Text: fmt.Sprint("v", h.rng.IntN(2))}, true)
		}
	case 6:
		time.Sleep(time.Duration(h.rng.IntN(3000)) * time.Millisecond)
	case 7:
		h.model.Set(0, key, nil)
		h.Submit(scheduler.Txn{Want: []scheduler.Change{scheduler.Withdraw(key)}})
	default:
		v := h.thing(key)
		h.model.Set(0, key, &sim.Word{Thing: v})
		h.Submit(scheduler.Txn{Want: []scheduler.Change{scheduler.Set(key, v)}})
	}
}

func (h *interrupted) thing(k scheduler.Key) schedulertest.Thing {
	t := schedulertest.Thing{Text: fmt.Sprint("v", h.rng.IntN(3)), Fixed: h.rng.IntN(3) == 0}
	if h.rng.IntN(2) == 0 {
		t.Needs = append(t.Needs, fmt.Sprintf("o/%d", h.rng.IntN(3)))
	}
	if h.rng.IntN(2) == 0 {
		t.Needs = append(t.Needs, fmt.Sprintf("%s/%d", []string{"a", "b"}[h.rng.IntN(2)], h.rng.IntN(4)))
		t.Needs = slices.DeleteFunc(t.Needs, func(n string) bool { return n == string(k) })
	}
	if strings.HasPrefix(string(k), "a/") && h.rng.IntN(2) == 0 {
		t.Derives = []string{"p<o/2", "q"}[:1+h.rng.IntN(2)]
	}
	return t
}

// toggle unregisters a kind, or registers it again.
func (h *interrupted) toggle(name string) {
	if !h.away[name] {
		h.check(h.Unregister(name))
	} else {
		o := map[string]schedulertest.Options{"a": {DerivedTo: "d"}, "o": {Observed: true}}[name]
		_, err := scheduler.Register(h.Scheduler, h.world.Kind(name, o))
		h.check(err)
	}
	h.away[name] = !h.away[name]
}

func (h *interrupted) heal() {
	h.calm.Store(true)
	for _, name := range slices.Sorted(maps.Keys(h.away)) {
		if h.away[name] {
			h.toggle(name)
		}
	}
	for range 3 {
		h.world.Release()
		time.Sleep(time.Hour)
		synctest.Wait()
		h.Submit(scheduler.Txn{LookAll: true})
	}
	time.Sleep(time.Hour)
	synctest.Wait()
}

func (h *interrupted) problem() string {
	got, there := h.world.Objects(), map[scheduler.Key]schedulertest.Thing{}
	for k, t := range got {
		if strings.HasPrefix(string(k), "o/") {
			there[k] = t
		}
	}
	all, err := h.List(ctx)
	h.check(err)
	h.model.Own(got, all)
	want := h.model.Expect(there)
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[k]; !ok || g.Text != want[k].Text {
			why, err := h.Why(ctx, k)
			return fmt.Sprintf("%s should be %+v, is %+v (there: %v)\n%s %v", k, want[k], g, ok, why, err)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			s, err := h.Get(ctx, k)
			return fmt.Sprintf("%s should not be there: %s: %s %v", k, s.State, s.Reason, err)
		}
	}
	for _, s := range all {
		_, in := want[s.Key]
		switch {
		case s.State == scheduler.Configured && in, s.State == scheduler.Observed, s.State == scheduler.Pending && len(s.Missing) > 0:
		default:
			return fmt.Sprintf("%s is %s: %s", s.Key, s.State, s.Reason)
		}
	}
	return "" // what depends on what, nobody knows of kinds that are away: laws are not asked
}
