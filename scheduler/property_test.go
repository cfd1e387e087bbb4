package scheduler_test

import (
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
)

// What needs a property of a value comes and goes with it, and so does what
// needs a property of a certain kind.
func TestProperty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		link, user := plain("link"), plain("user")
		link.Derive = func(k scheduler.Key, v string) []scheduler.Change {
			if v == "down" {
				return nil
			}
			return []scheduler.Change{scheduler.Set("speed/"+k[len("link/"):], v)}
		}
		user.Needs = func(scheduler.Key, string) []scheduler.Need {
			return []scheduler.Need{scheduler.If(scheduler.On("speed/1", "a fast link"),
				func(_ scheduler.Key, v string, _ struct{}) bool { return v == "fast" })}
		}
		for _, d := range []text{link, user} {
			_, err := scheduler.Register(r.Scheduler, d)
			r.check(err)
		}
		_, err := scheduler.Register(r.Scheduler, scheduler.Property[string]("speed", "speed/"))
		r.check(err)
		_, err = r.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set("user/1", "v1")}})
		r.check(err)
		for _, step := range []struct {
			link string
			want scheduler.State
		}{
			{"slow", scheduler.Pending}, {"fast", scheduler.Configured}, {"slow", scheduler.Pending},
			{"fast", scheduler.Configured}, {"down", scheduler.Pending},
		} {
			_, err := r.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set("link/1", step.link)}})
			r.check(err)
			synctest.Wait()
			if s, err := r.Get(ctx, "user/1"); err != nil || s.State != step.want {
				t.Errorf("link %s: user/1 is %s: %s, want %s", step.link, s.State, s.Reason, step.want)
			}
		}
	})
}
