package scheduler_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Two values in place come to need each other together, by updates, and one depends on
// the other through a third. That is known before the first update.
func TestNewPeersInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			d.Compare = func(_ scheduler.Key, from, to schedulertest.Thing) scheduler.Verdict {
				if from.Text == to.Text {
					return scheduler.Verdict{}
				}
				return scheduler.Verdict{Change: scheduler.InPlace}
			}
			return d
		})
		r.want("a/1 v1", "a/2 v1 needs=b/1", "b/1 v1 needs=a/1")
		made := len(r.world.Lines())
		r.want("a/1 v2 peer=a/2", "a/2 v2 peer=a/1 needs=b/1")
		lines := slices.DeleteFunc(r.world.Lines()[made:], func(l string) bool { return !strings.ContainsAny(l[:1], "+-~") })
		if want := []string{"- a/2", "- b/1", "- a/1"}; !slices.Equal(lines, want) {
			t.Errorf("done: %q, not %q", lines, want)
		}
	})
}

// TestPlanOfPeers: in a plan that changes both of a pair neither waits for the other one, if
// the pair is all that ties them.
func TestPlanOfPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name != "a" {
				return d
			}
			needs := d.Needs
			d.Needs = func(k scheduler.Key, v schedulertest.Thing) []scheduler.Need {
				return slices.DeleteFunc(needs(k, v), func(n scheduler.Need) bool { return !n.Together })
			}
			return d
		})
		r.want("a/1 v1 peer=a/2", "a/2 v1 peer=a/1")
		p, err := r.Preview(ctx, scheduler.Txn{Want: changes("a/1 v2 peer=a/2", "a/2 v2 peer=a/1")})
		if err != nil || len(p.Steps) != 2 || len(p.Steps[0].After)+len(p.Steps[1].After) > 0 {
			t.Errorf("%v, %v", p, err)
		}
	})
}
