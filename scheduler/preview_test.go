package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
)

// A plan lists exactly the operations that follow, in an order that its own
// constraints allow, and computing it changes nothing.
func TestPreviewEqualsExecution(t *testing.T) {
	// Operations end in the order in which they begin, as a preview assumes:
	// where they overtake each other, steps in between may differ.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, scheduler.Options{Workers: 1})
			rng := rand.New(rand.NewPCG(seed, 1))
			for range 30 {
				txn := scheduler.Txn{Want: changes(randomLines(rng)...)}
				before := picture(t, r)
				p, err := r.Preview(ctx, txn)
				r.check(err)
				if after := picture(t, r); after != before {
					t.Fatalf("seed %d: a preview changed things:\n%s\nis now\n%s", seed, before, after)
				}
				from := len(r.world.Lines())
				_, err = r.Apply(ctx, txn)
				r.check(err)
				synctest.Wait()
				if err := follows(p, r.world.Lines()[from:]); err != nil {
					t.Fatalf("seed %d: %v\ntxn: %v\nplan:\n%sdone:\n%s", seed, err, txn.Want, p, strings.Join(r.world.Lines()[from:], "\n"))
				}
			}
		})
		if t.Failed() {
			return
		}
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

// follows tells whether what was done is what was planned.
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
