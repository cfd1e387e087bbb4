package schedulertest

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// History is one random history: chaos first, then everything heals, and the
// world must be what the model expects. It must run inside a synctest bubble.
type History struct {
	Seed  uint64
	Steps int
	// Calm leaves faults, foreign changes and restarts out.
	Calm bool

	rng    *rand.Rand
	world  *World
	model  *Model
	s      *scheduler.Scheduler
	stop   func()
	chaos  atomic.Bool
	Counts map[string]int
}

var sourceNames = []string{"strong", "weak"}

const (
	managed  = 8 // keys of kinds a and b
	observed = 3
)

// Run plays the history and returns what was wrong, nil if nothing was.
func (h *History) Run() error {
	h.rng = rand.New(rand.NewPCG(h.Seed, 0))
	h.world, h.model = NewWorld(), NewModel(len(sourceNames))
	h.model.Derived = "d"
	h.model.Derives = func(k scheduler.Key) bool { return kindName(k) == "a" }
	h.world.Fault = h.fault
	h.world.Unreliable(!h.Calm)
	h.Counts = map[string]int{}
	h.start()
	defer func() { h.stop() }()
	h.chaos.Store(!h.Calm)
	for range h.Steps {
		h.step()
	}
	if err := h.heal(); err != nil {
		return fmt.Errorf("seed %d: %w\nhistory:\n%s\nworld:\n%s", h.Seed, err,
			strings.Join(h.world.Log, "\n"), h.world)
	}
	for k, n := range h.world.Counts {
		if !strings.HasPrefix(k, "tried ") {
			h.Counts[k] = n
		}
	}
	return nil
}

func (h *History) start() {
	h.s = scheduler.New(scheduler.Options{Sources: sourceNames, Workers: 1 + h.rng.IntN(4), Rand: func() float64 { return 0.5 }})
	derived := Options{}
	for _, k := range []struct {
		name string
		o    Options
	}{
		{"a", Options{DerivedTo: "d"}}, {"b", Options{NoUpdate: true, Batch: true}},
		{"d", derived}, {"o", Options{Observed: true}},
	} {
		if _, err := scheduler.Register(h.s, h.world.Kind(k.name, k.o)); err != nil {
			panic(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s := h.s
	go func() { done <- s.Run(ctx) }()
	h.stop = func() { cancel(); <-done }
	for i, name := range sourceNames {
		t := scheduler.Txn{Source: name, Complete: true}
		for _, k := range slices.Sorted(maps.Keys(h.model.Wants[i])) {
			t.Want = append(t.Want, scheduler.Set(k, h.model.Wants[i][k]))
		}
		h.s.Submit(t)
	}
}

// fault decides by seed, operation and how often it was tried, so that the
// same history meets the same faults however its goroutines run.
func (h *History) fault(op string, k scheduler.Key) Fault {
	if !h.chaos.Load() {
		return None
	}
	f := fnv.New64a()
	fmt.Fprint(f, h.Seed, op, k, h.world.Counts["tried "+op+" "+string(k)])
	h.world.Counts["tried "+op+" "+string(k)]++
	rng := rand.New(rand.NewPCG(f.Sum64(), 1))
	switch {
	case rng.IntN(6) != 0:
		return None
	case op == "look":
		return Fail
	}
	return Fault(1 + rng.IntN(4))
}

func (h *History) note(format string, args ...any) {
	h.world.note(fmt.Sprintf(format, args...))
}

func (h *History) key() scheduler.Key {
	return scheduler.Key(fmt.Sprintf("%s/%d", []string{"a", "b"}[h.rng.IntN(2)], h.rng.IntN(managed)))
}

func (h *History) anyKey() scheduler.Key {
	if h.rng.IntN(3) == 0 {
		return h.observedKey()
	}
	return h.key()
}

func (h *History) observedKey() scheduler.Key {
	return scheduler.Key(fmt.Sprintf("o/%d", h.rng.IntN(observed)))
}

func (h *History) thing(k scheduler.Key) Thing {
	t := Thing{Text: fmt.Sprintf("v%d", h.rng.IntN(4)), Fixed: h.rng.IntN(4) == 0, Bad: h.rng.IntN(12) == 0}
	for range h.rng.IntN(3) {
		n := string(h.anyKey())
		switch h.rng.IntN(6) {
		case 0:
			n = kindName(scheduler.Key(n)) + "/"
		case 1:
			n += fmt.Sprintf("=v%d", h.rng.IntN(4))
		case 2:
			if h.Calm { // after a restart nobody knows what a thing was built with
				n += "@"
			}
		}
		if n != string(k) && !strings.HasPrefix(n, string(k)+"=") && n != string(k)+"@" && n != kindName(k)+"/" {
			t.Needs = append(t.Needs, n)
		}
	}
	if h.rng.IntN(6) == 0 {
		if p := h.key(); p != k {
			t.Peer = string(p)
		}
	}
	if h.rng.IntN(5) == 0 {
		t.Claims = []string{fmt.Sprintf("name%d", h.rng.IntN(3))}
	}
	if kindName(k) == "a" {
		for i := range h.rng.IntN(3) {
			d := fmt.Sprintf("p%d", i)
			if h.rng.IntN(3) == 0 {
				d += "<" + string(h.observedKey())
			}
			t.Derives = append(t.Derives, d)
		}
	}
	slices.Sort(t.Needs)
	t.Needs = slices.Compact(t.Needs)
	return t
}

// step does one random thing.
func (h *History) step() {
	switch n := h.rng.IntN(20); {
	case n < 11:
		h.write()
	case n < 14:
		h.moveObserved()
	case n == 14 && !h.Calm:
		h.meddle()
	case n == 15 && !h.Calm:
		h.restart()
	case n == 16:
		h.note("look at all")
		h.s.Submit(scheduler.Txn{LookAll: true})
	default:
		d := time.Duration(h.rng.IntN(3000)) * time.Millisecond
		h.note("wait %s", d)
		time.Sleep(d)
	}
	if h.Calm || h.rng.IntN(3) == 0 {
		synctest.Wait()
	}
}

// restart ends the scheduler and begins with a new one. Invalid values are
// taken back first: what was valid before them is known to the first alone.
func (h *History) restart() {
	for i, name := range sourceNames {
		for _, k := range slices.Sorted(maps.Keys(h.model.Wants[i])) {
			if h.model.Wants[i][k].Bad {
				h.note("%s withdraws %s", name, k)
				h.model.Set(i, k, nil)
				h.s.Submit(scheduler.Txn{Source: name, Want: []scheduler.Change{scheduler.Withdraw(k)}})
			}
		}
	}
	h.note("restart")
	h.stop()
	h.start()
}

func (h *History) write() {
	src := h.rng.IntN(len(sourceNames))
	t := scheduler.Txn{Source: sourceNames[src]}
	named := map[scheduler.Key]bool{}
	for range 1 + h.rng.IntN(3) {
		k := h.key()
		if named[k] {
			continue
		}
		named[k] = true
		if h.rng.IntN(4) == 0 {
			h.note("%s withdraws %s", t.Source, k)
			h.model.Set(src, k, nil)
			t.Want = append(t.Want, scheduler.Withdraw(k))
			continue
		}
		v := h.thing(k)
		if _, known := h.model.valid[k]; !known && !h.Calm {
			v.Bad = false // what is left of it in the world would count as its last valid value
		}
		h.note("%s sets %s %+v", t.Source, k, v)
		h.model.Set(src, k, &v)
		t.Want = append(t.Want, scheduler.Set(k, v))
	}
	h.s.Submit(t)
}

func (h *History) moveObserved() {
	k := h.observedKey()
	tell := h.Calm || h.rng.IntN(3) > 0
	if h.rng.IntN(2) == 0 {
		h.note("%s goes (told: %v)", k, tell)
		h.world.Unreliable(true)
		h.world.Take(k, tell)
		return
	}
	text := fmt.Sprintf("v%d", h.rng.IntN(4))
	h.note("%s comes as %s (told: %v)", k, text, tell)
	h.world.Put(k, Thing{Text: text}, tell)
}

// meddle changes what is ours behind the scheduler's back.
func (h *History) meddle() {
	tell := h.rng.IntN(2) == 0
	for _, k := range slices.Sorted(maps.Keys(h.world.Objects())) {
		if kindName(k) == "o" || h.rng.IntN(4) > 0 {
			continue
		}
		if h.rng.IntN(2) == 0 {
			h.note("somebody removes %s (told: %v)", k, tell)
			h.world.Take(k, tell)
		} else {
			h.note("somebody changes %s (told: %v)", k, tell)
			t := h.world.Objects()[k]
			t.Text = "meddled"
			h.world.Put(k, t, tell)
		}
		return
	}
}

// heal ends all faults and checks what became of it all.
func (h *History) heal() error {
	h.note("heal")
	h.chaos.Store(false)
	h.s.Submit(scheduler.Txn{LookAll: true})
	time.Sleep(time.Hour)
	synctest.Wait()
	h.s.Submit(scheduler.Txn{LookAll: true}) // what moved while the first look was under way
	time.Sleep(time.Hour)
	synctest.Wait()
	if err := h.check(); err != nil {
		return err
	}
	before := len(h.world.Log)
	h.s.Submit(scheduler.Txn{LookAll: true})
	time.Sleep(time.Minute)
	synctest.Wait()
	if more := h.world.Log[before:]; len(more) > 0 { // looks that succeed leave no line
		return fmt.Errorf("a look at a settled world caused operations: %v", more)
	}
	if broken := h.world.Broken(); len(broken) > 0 {
		return fmt.Errorf("laws broken: %s", strings.Join(broken, "; "))
	}
	return nil
}

// check compares the world, and the states that are told, with the model.
func (h *History) check() error {
	there := map[scheduler.Key]Thing{}
	got := h.world.Objects()
	for k, t := range got {
		if kindName(k) == "o" {
			there[k] = t
		}
	}
	want := h.model.Expect(there)
	for _, k := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[k]
		if !ok || g.Text != want[k].Text || g.Peer != want[k].Peer {
			return fmt.Errorf("%s should be %+v, is %+v (there: %v)%s", k, want[k], g, ok, h.why(k))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if old := h.world.Outdated(k); old != "" && h.Calm {
			return fmt.Errorf("%s was built with %s, which has changed%s", k, old, h.why(k))
		}
		if _, ok := want[k]; !ok {
			return fmt.Errorf("%s should not be there, is %+v%s", k, got[k], h.why(k))
		}
	}
	return h.checkStates(want)
}

func (h *History) why(k scheduler.Key) string {
	c, err := h.s.Why(context.Background(), k)
	if err != nil {
		return "\n" + err.Error()
	}
	out := "\nwhy: " + c.String()
	if t := h.model.valid[k]; t.Peer != "" {
		if p, err := h.s.Why(context.Background(), scheduler.Key(t.Peer)); err == nil {
			out += "its peer: " + p.String()
		}
	}
	return out
}

// checkStates: a key is configured exactly if it is in the world as wanted.
func (h *History) checkStates(want map[scheduler.Key]Thing) error {
	all, err := h.s.List(context.Background())
	if err != nil {
		return err
	}
	for _, st := range all {
		_, in := want[st.Key]
		switch st.State {
		case scheduler.Configured:
			if !in {
				return fmt.Errorf("%s is said to be configured and is not there", st.Key)
			}
		case scheduler.Pending:
			if in && len(st.Derived) == 0 {
				return fmt.Errorf("%s is said to be pending (%s) and is there", st.Key, st.Reason)
			}
			if len(st.Missing) == 0 {
				return fmt.Errorf("%s is pending for no reason: %s", st.Key, st.Reason)
			}
		case scheduler.Observed, scheduler.InvalidState:
		default:
			return fmt.Errorf("%s is %s (%s) in a healed world", st.Key, st.State, st.Reason)
		}
		h.Counts["state "+st.State.String()]++
	}
	return nil
}
