package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

type thingKind = scheduler.Descriptor[schedulertest.Thing, int]

// unevenly makes operations take their time, so that they overtake each other.
func unevenly(seed uint64) func(thingKind) thingKind {
	var mu sync.Mutex
	rng := newRand(seed, 2)
	pause := func() {
		mu.Lock()
		d := time.Duration(rng.IntN(4)) * time.Millisecond * time.Duration(rng.IntN(20))
		mu.Unlock()
		time.Sleep(d)
	}
	return func(d thingKind) thingKind {
		create, update, remove := d.Create, d.Update, d.Delete
		if create == nil {
			return d
		}
		late := pause
		if d.Name == "d" {
			// What derives it may change in place meanwhile. The World judges that by when the
			// thing is made, and the scheduler has judged it when it let that begin.
			late = func() {}
		}
		d.Create = func(ctx context.Context, k scheduler.Key, v schedulertest.Thing) (int, error) {
			late()
			m, err := create(ctx, k, v)
			pause()
			return m, err
		}
		d.Update = func(ctx context.Context, k scheduler.Key, from, to schedulertest.Thing, m int) (int, error) {
			late()
			m, err := update(ctx, k, from, to, m)
			pause()
			return m, err
		}
		d.Delete = func(ctx context.Context, k scheduler.Key, v schedulertest.Thing, m int) error {
			pause()
			err := remove(ctx, k, v, m)
			pause()
			return err
		}
		return d
	}
}

// randomPlans plays random transactions, with several workers, on a World where
// operations overtake each other. check gets the plan of each before it is
// applied, and returns what looks at what became of it.
func randomPlans(t *testing.T, check func(r *running, txn *scheduler.Txn, p scheduler.Plan) func(scheduler.Result) error) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			r := runKinds(t, scheduler.Options{Workers: 1 + int(seed%4)}, unevenly(seed))
			rng := newRand(seed, 1)
			for range 30 {
				txn := scheduler.Txn{Want: changes(randomLines(rng)...)}
				before := picture(t, r)
				p, err := r.Preview(ctx, txn)
				r.check(err)
				if after := picture(t, r); after != before {
					t.Fatalf("seed %d: a preview changed things:\n%s\nis now\n%s", seed, before, after)
				}
				from := len(r.world.Lines())
				after := check(r, &txn, p)
				res, err := r.Apply(ctx, txn)
				r.check(err)
				time.Sleep(time.Minute)
				synctest.Wait()
				done := r.world.Lines()[from:]
				if err := after(res); err != nil {
					t.Fatalf("seed %d: %v\ntxn: %v\nplan:\n%sdone:\n%s\nbefore:\n%s", seed, err, txn.Want, p, strings.Join(done, "\n"), before)
				}
			}
			if broken := r.world.Broken(); len(broken) > 0 {
				t.Fatalf("seed %d: %v", seed, broken)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A plan that is executed is executed exactly: its operations and no others, in
// an order that its own constraints allow. Computing it changes nothing.
func TestPreviewEqualsExecution(t *testing.T) {
	randomPlans(t, func(r *running, txn *scheduler.Txn, p scheduler.Plan) func(scheduler.Result) error {
		txn.Base = p.Base
		from, ends := len(r.world.Lines()), endStates(r, p)
		return func(res scheduler.Result) error {
			if res.Deviation != nil {
				return fmt.Errorf("%v", res.Deviation)
			}
			if err := follows(p, r.world.Lines()[from:]); err != nil {
				return err
			}
			return ends()
		}
	})
}

// Without a base things may be torn down and made again that the plan leaves
// alone, or the other way round; in the end all stands as the plan says.
func TestPreviewEqualsEnd(t *testing.T) {
	randomPlans(t, func(r *running, _ *scheduler.Txn, p scheduler.Plan) func(scheduler.Result) error {
		ends := endStates(r, p)
		return func(scheduler.Result) error { return ends() }
	})
}

// endStates compares how all keys stand, and what is there, with what
// follows from how they stood when it was called, and the plan.
func endStates(r *running, p scheduler.Plan) func() error {
	states := func() map[scheduler.Key]string {
		all, err := r.List(ctx)
		r.check(err)
		out := map[scheduler.Key]string{}
		for _, s := range all {
			out[s.Key] = s.State.String()
		}
		return out
	}
	want, there := states(), map[scheduler.Key]bool{}
	for k := range r.world.Objects() {
		there[k] = true
	}
	for _, f := range p.Effects {
		want[f.Key] = f.State.String()
		if f.State == scheduler.Removed || f.State == scheduler.Absent {
			delete(want, f.Key)
		}
	}
	for _, s := range p.Steps {
		there[s.Key] = s.Op != scheduler.OpDelete
	}
	return func() error {
		if got := states(); !maps.Equal(got, want) {
			return fmt.Errorf("the keys stand so:\n%v\nplanned was\n%v", got, want)
		}
		got := r.world.Objects()
		for k, yes := range there {
			if _, is := got[k]; is != yes {
				return fmt.Errorf("%s is there: %v, planned was %v", k, is, yes)
			}
			delete(got, k)
		}
		if len(got) > 0 {
			return fmt.Errorf("there without a plan: %v", got)
		}
		return nil
	}
}

func randomLines(rng *rand.Rand) []string {
	var lines []string
	used := map[int]bool{}
	for range 1 + rng.IntN(4) {
		n := rng.IntN(10)
		if used[n] {
			continue
		}
		used[n] = true
		l := fmt.Sprintf("a/%d", n)
		if rng.IntN(4) == 0 {
			lines = append(lines, l+" -")
			continue
		}
		l += fmt.Sprintf(" v%d", rng.IntN(3))
		if needs := rng.IntN(10); needs != n && rng.IntN(3) > 0 {
			l += fmt.Sprintf(" needs=a/%d", needs)
			if rng.IntN(3) == 0 {
				l += fmt.Sprintf("=v%d", rng.IntN(3))
			}
		} else if rng.IntN(4) == 0 {
			l += " needs=b/"
		}
		for _, o := range []string{" fixed", " derives=p0,p1", " claims=name", " bad"} {
			if rng.IntN(5) == 0 {
				l += o
			}
		}
		lines = append(lines, l)
	}
	if rng.IntN(4) == 0 {
		lines = append(lines, []string{"b/1 v1", "b/1 -", "b/2 v1 needs=a/1", "b/2 -"}[rng.IntN(4)])
	}
	return lines
}

// picture is all that is told of all keys.
func picture(t *testing.T, r *running) string {
	all, err := r.List(ctx)
	r.check(err)
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s %d\n%s", s.Key, s.Revision, describe(s))
	}
	return b.String()
}

// follows reports whether what was done is what was planned.
func follows(p scheduler.Plan, done []string) error {
	at := map[string][]int{} // where each operation was done, in turn
	for i, l := range done {
		op, _, _ := strings.Cut(l, "=")
		at[op] = append(at[op], i)
	}
	when := make([]int, len(p.Steps)+1)
	for i, s := range p.Steps {
		op := map[scheduler.Operation]string{scheduler.OpCreate: "+ ", scheduler.OpUpdate: "~ ", scheduler.OpDelete: "- "}[s.Op] + string(s.Key)
		if len(at[op]) == 0 {
			return fmt.Errorf("step %d was not done", s.N)
		}
		when[i+1], at[op] = at[op][0], at[op][1:]
	}
	for i, s := range p.Steps {
		for _, a := range s.After {
			if when[a] > when[i+1] {
				return fmt.Errorf("step %d was done before %d", s.N, a)
			}
		}
	}
	left := slices.DeleteFunc(sorted(at), func(op string) bool { return len(at[op]) == 0 })
	if len(left) > 0 {
		return fmt.Errorf("not in the plan: %v", left)
	}
	return nil
}

func sorted(m map[string][]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// restless names a key at which something is still to be done.
func restless(r *running) error {
	all, err := r.List(ctx)
	r.check(err)
	for _, s := range all {
		if s.Busy || s.State == scheduler.Leftover || s.State == scheduler.Pending && len(s.Missing) == 0 {
			return fmt.Errorf("%s", line(s))
		}
	}
	return nil
}
