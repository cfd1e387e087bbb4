package sim

import (
	"context"
	"fmt"
	"sync"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// follower reads a watcher: it counts changes of state, and knows at the end
// what the watcher was told last of each key.
type follower struct {
	mu     sync.Mutex
	states map[scheduler.Key]told
	ended  chan struct{}
}

// told is what a watcher hears of a key.
type told struct {
	state scheduler.State
	busy  bool
}

func (t told) String() string {
	if t.busy {
		return t.state.String() + " and busy"
	}
	return t.state.String()
}

func follow(s *scheduler.Scheduler, t *schedulertest.Tally) *follower {
	f := &follower{states: map[scheduler.Key]told{}, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		w := s.Watch()
		for {
			changes, _, err := w.Next(context.Background())
			if err != nil {
				return
			}
			f.mu.Lock()
			for _, c := range changes {
				if was := f.states[c.Key].state; was != c.State {
					t.Count("change", was.String()+" → "+c.State.String())
				}
				if f.states[c.Key] = (told{c.State, c.Busy}); c.State == scheduler.Removed || c.State == scheduler.Absent {
					delete(f.states, c.Key)
				}
			}
			f.mu.Unlock()
		}
	}()
	return f
}

// check compares what the watcher was told with how things are.
func (f *follower) check(all []scheduler.Status) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range all {
		if last, now := f.states[s.Key], (told{s.State, s.Busy}); last != now && s.State != scheduler.Absent && s.State != scheduler.Removed {
			return &Failure{What: "watcher", Text: fmt.Sprintf("%s is %s, but the watcher was told last that it is %s", s.Key, now, last)}
		}
	}
	return nil
}
