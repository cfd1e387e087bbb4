package scheduler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
)

// paths are files, some of which are there.
type paths struct {
	mu     sync.Mutex
	there  map[scheduler.Key]bool
	broken bool
	asked  []scheduler.Key
	tell   func(keys ...scheduler.Key)
}

func (p *paths) holds(_ context.Context, k scheduler.Key) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, k)
	if p.broken {
		return false, errors.New("permission denied")
	}
	return p.there[k], nil
}

func (p *paths) watch(ctx context.Context, notify func(keys ...scheduler.Key)) error {
	p.tell = notify
	<-ctx.Done()
	return nil
}

func (p *paths) set(k scheduler.Key, there bool) {
	p.mu.Lock()
	p.there[k] = there
	p.mu.Unlock()
}

func (p *paths) breaks(yes bool) {
	p.mu.Lock()
	p.broken = yes
	p.mu.Unlock()
}

// askedOf takes the keys that were asked of so far.
func (p *paths) askedOf() []scheduler.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

// A value may need what is no object, wakes when it holds, and makes way when
// it holds no more; what cannot be told blocks and tears nothing down.
func TestCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		p := &paths{there: map[scheduler.Key]bool{}}
		_, err := scheduler.Register(r.Scheduler, scheduler.Condition("path", "path/", p.holds, p.watch))
		r.check(err)
		synctest.Wait()
		is := func(want scheduler.State, told string) {
			t.Helper()
			synctest.Wait()
			s, err := r.Get(ctx, "a/1")
			r.check(err)
			if s.State != want {
				t.Errorf("a/1 is %s: %s, want %s", s.State, s.Reason, want)
			}
			if told != "" && (len(s.Missing) != 1 || s.Missing[0].Why != told) {
				t.Errorf("missing is told as %+v, want %q", s.Missing, told)
			}
		}
		if asked := p.askedOf(); len(asked) > 0 {
			t.Errorf("asked of %v, which nobody needs", asked)
		}
		r.want("a/1 v1 needs=path/x")
		is(scheduler.Pending, "to stand on (not there)")

		p.set("path/x", true)
		p.tell("path/x")
		is(scheduler.Configured, "")
		p.set("path/x", false)
		p.tell("path/x")
		is(scheduler.Pending, "to stand on (not there)")

		p.set("path/x", true) // untold: found when all is read
		r.Submit(scheduler.Txn{LookAll: true})
		is(scheduler.Configured, "")

		p.breaks(true)
		p.tell("path/x")
		is(scheduler.Configured, "")
		if got := r.world.String(); got != "a/1=v1\n" {
			t.Errorf("there is %q", got)
		}
		p.breaks(false)
		p.tell("path/x")
		r.want("a/1 -")
		synctest.Wait()
		p.askedOf()
		r.Submit(scheduler.Txn{LookAll: true})
		synctest.Wait()
		if asked := p.askedOf(); len(asked) > 0 {
			t.Errorf("asked of %v, which nobody needs any more", asked)
		}
	})
}

// What nobody needs any more is not kept: nobody would tell when it goes.
func TestConditionIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		p := &paths{there: map[scheduler.Key]bool{"path/x": true}}
		_, err := scheduler.Register(r.Scheduler, scheduler.Condition("path", "path/", p.holds, p.watch))
		r.check(err)
		for _, want := range []struct {
			edit  string
			state scheduler.State
		}{{"a/1 v1 needs=path/x", scheduler.Observed}, {"a/1 -", scheduler.Absent}, {"a/1 v1 needs=path/x", scheduler.Observed}} {
			r.want(want.edit)
			synctest.Wait()
			if s, err := r.Get(ctx, "path/x"); s.State != want.state {
				t.Errorf("after %s path/x is %s, want %s: %v", want.edit, s.State, want.state, err)
			}
		}
	})
}
