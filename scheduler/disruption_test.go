package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
)

// A plan says of each step what its kind says it does to traffic; where the kind
// says nothing, to delete is disruptive. What makes others go is cascading, whatever
// the kind says.
func TestDisruptionOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, user := plain("x"), plain("user")
		x.Compare = func(_ scheduler.Key, from, to string) scheduler.Verdict {
			switch {
			case from == to:
				return scheduler.Verdict{}
			case strings.HasPrefix(to, "new"):
				return scheduler.Verdict{Change: scheduler.Replace, Reason: "it cannot be changed"}
			}
			return scheduler.Verdict{Change: scheduler.InPlace, Reason: "it changed"}
		}
		x.Disruption = func(k scheduler.Key, from, to string) scheduler.Disruption {
			switch from + " → " + to {
			case "v1 → soft", " → v1": // what is not there yet is the zero value
				return scheduler.NoDisruption
			case "v1 → hard":
				return scheduler.Disruptive
			case "v1 → panics":
				panic("told to")
			}
			return scheduler.Brief // also that it goes, which is to no value
		}
		user.Needs = func(k scheduler.Key, v string) []scheduler.Need {
			return []scheduler.Need{scheduler.On("x/1", "a ground")}
		}
		r := run(t, scheduler.Options{})
		for _, d := range []text{x, user} {
			_, err := scheduler.Register(r.Scheduler, d)
			r.check(err)
		}
		steps := func(changes ...scheduler.Change) string {
			p, err := r.Preview(ctx, scheduler.Txn{Want: changes})
			r.check(err)
			var out []string
			for _, s := range p.Steps {
				out = append(out, fmt.Sprintf("%v %s %v", s.Op, s.Key, s.Disruption))
			}
			return strings.Join(out, "; ")
		}
		expect := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("the steps are\n%s\nwant\n%s", got, want)
			}
		}
		first := scheduler.Set("x/1", "v1")
		expect(steps(first), "create x/1 none")
		_, err := r.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{first}})
		r.check(err)

		expect(steps(scheduler.Set("x/1", "soft")), "update x/1 none")
		expect(steps(scheduler.Set("x/1", "other")), "update x/1 brief")
		expect(steps(scheduler.Set("x/1", "hard")), "update x/1 disruptive")
		expect(steps(scheduler.Set("x/1", "panics")), "update x/1 cascading") // the worst, as nobody knows
		expect(steps(scheduler.Withdraw("x/1")), "delete x/1 brief")
		expect(steps(scheduler.Set("x/1", "new")), "delete x/1 brief; create x/1 brief")

		// With something that depends on it an update is as harmless as before; a
		// replacement takes that away.
		_, err = r.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set("user/1", "v1")}})
		r.check(err)
		expect(steps(scheduler.Set("x/1", "soft")), "update x/1 none")
		expect(steps(scheduler.Set("x/1", "new")), "delete user/1 disruptive; delete x/1 cascading; create x/1 brief; create user/1 none")
		// What nobody wants any more goes with it without being torn down for it.
		expect(steps(scheduler.Withdraw("user/1"), scheduler.Withdraw("x/1")), "delete user/1 disruptive; delete x/1 brief")
	})
}
