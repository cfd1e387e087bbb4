package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/scheduler"
)

// TestSteps: what goes and comes again is one step, which waits for what both did.
func TestSteps(t *testing.T) {
	step := func(n int, op scheduler.Operation, key scheduler.Key, after ...int) scheduler.Step {
		return scheduler.Step{N: n, Op: op, Key: key, After: after, Reason: op.String()}
	}
	for _, c := range []struct {
		name, want string
		steps      []scheduler.Step
	}{
		{"what stands on it is replaced as well", "1 replace a; 2 replace on-a 1", []scheduler.Step{
			step(1, scheduler.OpDelete, "on-a"), step(2, scheduler.OpDelete, "a", 1),
			step(3, scheduler.OpCreate, "a", 2), step(4, scheduler.OpCreate, "on-a", 1, 3),
		}},
		{"two take each other's place", "1 replace a; 2 replace b 1", []scheduler.Step{
			step(1, scheduler.OpDelete, "a"), step(2, scheduler.OpDelete, "b"),
			step(3, scheduler.OpCreate, "a", 1, 2), step(4, scheduler.OpCreate, "b", 1, 2),
		}},
		{"what was made goes again", "1 create a; 2 delete a 1", []scheduler.Step{
			step(1, scheduler.OpCreate, "a"), step(2, scheduler.OpDelete, "a", 1),
		}},
	} {
		var got []string
		all, at := steps(scheduler.Plan{Steps: c.steps})
		for _, s := range all {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", s.N, s.Op, s.Key, strings.Trim(fmt.Sprint(s.After), "[]"))))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
		for _, s := range c.steps {
			if n := at[s.N]; n == 0 || all[n-1].Key != string(s.Key) {
				t.Errorf("%s: step %d is shown as %d", c.name, s.N, n)
			}
		}
	}
}
