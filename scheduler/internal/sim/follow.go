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
	base  scheduler.Key
}

func tell(s scheduler.Status) told { return told{s.State, s.Busy, s.Base} }

func (t told) String() string {
	text := t.state.String()
	if t.busy {
		text += " and busy"
	}
	if t.base != "" {
		text += " and derived by " + string(t.base)
	}
	return text
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
				if f.states[c.Key] = tell(c); c.State == scheduler.Removed || c.State == scheduler.Absent {
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
	there := func(s scheduler.Status) bool { return s.State != scheduler.Absent && s.State != scheduler.Removed }
	shown := map[scheduler.Key]scheduler.Key{} // the base below which a key is shown
	for _, s := range all {
		for _, d := range s.Derived {
			if there(s) {
				shown[d.Key] = s.Key
			}
		}
	}
	for _, s := range all {
		if last, now := f.states[s.Key], tell(s); last != now && there(s) {
			return &Failure{What: "watcher", Text: fmt.Sprintf("%s is %s, but the watcher was told last that it is %s", s.Key, now, last)}
		}
		if there(s) && shown[s.Key] != s.Base {
			return &Failure{What: "base", Text: fmt.Sprintf("%s is derived by %q, and shown below %q", s.Key, s.Base, shown[s.Key])}
		}
	}
	return nil
}
