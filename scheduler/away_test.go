package scheduler_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

var aways = flag.Int("aways", 0, "how many random changes TestChangesWhileAway makes, from -from on")

// TestChangesWhileAway: random changes around all limits, made while no process runs or by one
// transaction while one does. Exactly the mass deletions are held back, by a count of keys
// that shares no code with the engine; everything else is done, and nothing is logged as an
// error. What other values derive is no deletion, unless nobody can tell that they did: then
// what is left of it after a restart counts like any key, and only what is left.
func TestChangesWhileAway(t *testing.T) {
	n := *aways
	switch {
	case n > 0:
	case raceEnabled:
		n = 60
	default:
		n = 1000
	}
	outcomes := map[string]int{}
	for seed := *from; seed < *from+uint64(n) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			c := newAway(seed)
			c.play(t)
			outcomes[c.outcome()]++
		})
	}
	t.Logf("%d changes from seed %d on: %v", n, *from, outcomes)
	for _, live := range []string{"while away", "by a transaction"} {
		for _, held := range []string{"held", "not held", "of the owner, not held"} {
			if outcomes[held+" "+live] == 0 {
				t.Errorf("no change %s was %s", live, held)
			}
		}
	}
}

// away is one random change of what two sources want.
type away struct {
	seed          uint64
	limit         scheduler.Deletions
	live, byOwner bool
	fails         bool // the first reads of a kind fail
	// before and after are what the sources want; those of cni are called c/….
	before, after map[scheduler.Key]schedulertest.Thing
}

func newAway(seed uint64) *away {
	g := rand.New(rand.NewPCG(seed, 29))
	c := &away{seed: seed, live: g.IntN(2) == 0, byOwner: g.IntN(2) == 0, fails: g.IntN(4) == 0,
		before: map[scheduler.Key]schedulertest.Thing{}, after: map[scheduler.Key]schedulertest.Thing{}}
	switch g.IntN(5) {
	case 0:
		c.limit.Most = 1 + g.IntN(30)
	case 1:
		c.limit.Percent = 1 + g.IntN(100)
	case 2:
		c.limit.Off = true
	default:
		c.limit.Most, c.limit.Percent = 10+g.IntN(30), 10+g.IntN(80)
	}
	for _, kind := range []string{"a", "b", "c"} {
		n := []int{0, 1, 9, 10, 11, 19, 20, 21, 25, 40, 50}[g.IntN(11)]
		keep := n - c.removed(g, n)
		whole := kind == "c" && c.live && !c.byOwner // the list of cni alone would be judged by itself
		if whole {
			keep = n
		}
		order := g.Perm(n)
		for i, nth := range order {
			k := scheduler.Key(fmt.Sprint(kind, "/", nth))
			c.before[k] = c.thing(g, kind)
			if whole {
				c.after[k] = c.before[k]
			} else if i < keep {
				c.after[k] = c.changed(g, kind, c.before[k])
			}
		}
		for i := range g.IntN(4) {
			if g.IntN(3) == 0 && keep > 0 && !whole { // what is new is no reason for anything
				c.after[scheduler.Key(fmt.Sprint(kind, "/new", i))] = c.thing(g, kind)
			}
		}
	}
	return c
}

// removed is how many of n keys go: often as many as a limit allows, or one more or less.
func (c *away) removed(g *rand.Rand, n int) int {
	var r int
	switch g.IntN(6) {
	case 0:
		return 0
	case 1:
		r = n
	case 2:
		r = 20 + g.IntN(3) - 1
	case 3:
		r = c.limit.Most + g.IntN(3) - 1
	case 4:
		r = n*c.limit.Percent/100 + g.IntN(3) - 1
	default:
		r = g.IntN(n + 1)
	}
	return min(max(r, 0), n)
}

func (c *away) thing(g *rand.Rand, kind string) schedulertest.Thing {
	t := schedulertest.Thing{Text: fmt.Sprint("v", g.IntN(3))}
	if kind == "a" {
		for i := range g.IntN(3) {
			t.Derives = append(t.Derives, fmt.Sprint("p", i+3*g.IntN(2)))
		}
	}
	if kind == "b" {
		t.Derives = []string{"q"}
	}
	return t
}

func (c *away) changed(g *rand.Rand, kind string, was schedulertest.Thing) schedulertest.Thing {
	if g.IntN(2) == 0 {
		return c.thing(g, kind)
	}
	return was
}

// of are the values of a source in a map.
func of(source string, all map[scheduler.Key]schedulertest.Thing) (want []scheduler.Change) {
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(string(k), "c/") == (source == "cni") {
			want = append(want, scheduler.Set(k, all[k]))
		}
	}
	return want
}

// gone are the keys that are not wanted any more.
func (c *away) gone() (keys []scheduler.Key) {
	for _, k := range slices.Sorted(maps.Keys(c.before)) {
		if _, stays := c.after[k]; !stays {
			keys = append(keys, k)
		}
	}
	return keys
}

// held are the keys that are to be held back: those that are gone and that their owner did
// not take back, if they are too many.
func (c *away) held() []scheduler.Key {
	var concluded []scheduler.Key
	there, going := map[string]int{}, map[string]int{}
	for k := range c.before {
		if k[0] == 'c' && c.byOwner && c.live && !c.stays(k) {
			continue // it had gone before
		}
		there[string(k[0])]++
	}
	for k := range c.after { // as long as b cannot be read nothing is judged, and others are made
		if _, was := c.before[k]; !was && !c.live && c.fails && k[0] != 'b' {
			there[string(k[0])]++
		}
	}
	for _, k := range c.gone() {
		if k[0] != 'c' || !c.byOwner {
			concluded = append(concluded, k)
			going[string(k[0])]++
		}
		if k[0] == 'b' && !c.live { // nobody knows by what it was derived
			concluded = append(concluded, "e"+k[1:]+"/q")
			going["e"]++
		}
	}
	slices.Sort(concluded)
	there["e"] = there["b"]
	if c.limit.Off {
		return nil
	}
	for kind, n := range going {
		if c.limit.Most > 0 && n > c.limit.Most || c.limit.Percent > 0 && n > 20 && 100*n > c.limit.Percent*there[kind] {
			return concluded
		}
	}
	if len(c.after) == 0 && len(concluded) >= 10 {
		return concluded
	}
	return nil
}

func (c *away) stays(k scheduler.Key) bool { _, is := c.after[k]; return is }

func (c *away) outcome() string {
	out := "not held"
	switch {
	case len(c.held()) > 0:
		out = "held"
	case c.byOwner && slices.ContainsFunc(c.gone(), func(k scheduler.Key) bool { return k[0] == 'c' }):
		out = "of the owner, not held"
	}
	return out + map[bool]string{true: " by a transaction", false: " while away"}[c.live]
}

// expected are all objects that are to be there when all is done, with what they derive.
func (c *away) expected(held []scheduler.Key) map[scheduler.Key]string {
	out := map[scheduler.Key]string{}
	note := func(k scheduler.Key, t schedulertest.Thing) {
		out[k] = t.Text
		for _, d := range t.Derives {
			out[map[byte]scheduler.Key{'a': "d", 'b': "e"}[k[0]]+k[1:]+"/"+scheduler.Key(d)] = "derived"
		}
	}
	for k, t := range c.after {
		note(k, t)
	}
	for _, k := range held {
		if t, is := c.before[k]; is {
			note(k, t)
		}
	}
	return out
}

// errorLog counts what is logged as an error.
type errorLog struct{ n atomic.Int64 }

func (l *errorLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }
func (l *errorLog) Handle(context.Context, slog.Record) error        { l.n.Add(1); return nil }
func (l *errorLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *errorLog) WithGroup(string) slog.Handler                    { return l }

func (c *away) play(t *testing.T) {
	w, log := schedulertest.NewWorld(), &errorLog{}
	o := scheduler.Options{Sources: []string{"etcd", "cni"}, Policies: []scheduler.Policy{{Deletions: c.limit}}, Log: slog.New(log)}
	r := startAway(t, w, o)
	for _, source := range o.Sources {
		r.Submit(scheduler.Txn{Source: source, Complete: true, Want: of(source, c.before)})
	}
	synctest.Wait()
	if got := texts(w); !maps.Equal(got, c.expectedBefore()) {
		t.Fatalf("seed %d: before: %v", c.seed, got)
	}
	if !c.live {
		r.check(r.stop())
		w.NewProcess()
		if c.fails {
			order, err := schedulertest.ParseOrder("look b/: fail twice")
			r.check(err)
			w.Order(order)
		}
		r = startAway(t, w, o)
	}
	own := scheduler.Txn{Source: "cni", Complete: true, Want: of("cni", c.after), ByOwner: c.byOwner}
	if c.byOwner {
		for _, k := range c.gone() {
			if k[0] == 'c' {
				own.Want = append(own.Want, scheduler.Withdraw(k))
			}
		}
	}
	rest := scheduler.Txn{Source: "etcd", Complete: true, Want: of("etcd", c.after)}
	r.Submit(own)
	if c.live {
		synctest.Wait()
	}
	r.Submit(rest)
	synctest.Wait()
	time.Sleep(patience) // reads that failed are tried again
	synctest.Wait()

	want := c.held()
	if got := texts(w); !maps.Equal(got, c.expected(want)) {
		t.Errorf("seed %d, %s, limit %s: there is\n%v, want\n%v", c.seed, c.outcome(), c.limit, got, c.expected(want))
	}
	held, err := r.HeldBack()
	r.check(err)
	var keys []scheduler.Key
	for _, h := range held {
		keys = append(keys, h.Keys...)
	}
	if !slices.Equal(keys, want) {
		t.Errorf("seed %d, %s, limit %s: held back is\n%v, want\n%v", c.seed, c.outcome(), c.limit, held, want)
	}
	if n := log.n.Load(); (n > 0) != (len(want) > 0) {
		t.Errorf("seed %d, %s, limit %s: %d errors were logged", c.seed, c.outcome(), c.limit, n)
	}
	if len(want) > 0 {
		r.check(r.Release(""))
		synctest.Wait()
	}
	if got := texts(w); !maps.Equal(got, c.expected(nil)) {
		t.Errorf("seed %d, %s: in the end there is\n%v, want\n%v", c.seed, c.outcome(), got, c.expected(nil))
	}
}

// expectedBefore are the objects before the change.
func (c *away) expectedBefore() map[scheduler.Key]string {
	return (&away{after: c.before}).expected(nil)
}

func startAway(t *testing.T, w *schedulertest.World, o scheduler.Options) *running {
	r := &running{Scheduler: scheduler.New(o), t: t, world: w}
	for name, o := range map[string]schedulertest.Options{
		"a": {DerivedTo: "d"}, "b": {DerivedTo: "e"}, "c": {}, "d": {DerivedBy: "a"}, "e": {}} {
		_, err := scheduler.Register(r.Scheduler, w.Kind(name, o))
		r.check(err)
	}
	runs, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(runs) }()
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func texts(w *schedulertest.World) map[scheduler.Key]string {
	out := map[scheduler.Key]string{}
	for k, t := range w.Objects() {
		out[k] = t.Text
	}
	return out
}
