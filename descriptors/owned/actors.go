package owned

import (
	"context"
	"sync"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

const (
	// actorKept is how long after an event a key that is found changed may be put down to it.
	actorKept = 10 * time.Second
	// maxActors bounds how many keys are remembered twice: of more that one event after
	// another tells of, the older half is forgotten.
	maxActors = 4096
)

// Follow is that of [Events], and remembers who has caused what it tells; see ChangedBy.
func (o *Objects[V, M]) Follow(ctx context.Context, k kernel.Kernel, news func(kernel.Event) News, notify Notify) error {
	return o.Events.Follow(ctx, k, func(e kernel.Event) News {
		n := news(e)
		o.actors.note(n, k, e) // before it is told: who hears of it may ask at once
		return n
	}, notify)
}

// ChangedBy says who caused the last event that was news of a key, once, if that is known
// and was not long ago. Descriptors of kinds that follow events have it.
func (o *Objects[V, M]) ChangedBy(k scheduler.Key) string { return o.actors.take(k) }

// actors are those who caused the events that were news of keys. The zero value is empty.
type actors struct {
	mu         sync.Mutex
	young, old map[scheduler.Key]actor
}

type actor struct {
	text string
	at   time.Time
}

// note remembers who caused an event. Where nobody can tell, whoever was known to have
// changed a key before has not made this change.
func (s *actors) note(n News, k kernel.Kernel, e kernel.Event) {
	if !n.All && len(n.Keys) == 0 {
		return
	}
	a := actor{at: time.Now()}
	if e.Actor != (kernel.Actor{}) {
		a.text = k.Who(e.NS, e.Actor)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.All {
		s.young, s.old = nil, nil
		return
	}
	for _, key := range n.Keys {
		s.forget(key)
		if a.text != "" {
			s.keep(key, a)
		}
	}
}

// keep and forget have s.mu held.
func (s *actors) keep(key scheduler.Key, a actor) {
	if s.young == nil || len(s.young) >= maxActors {
		s.young, s.old = map[scheduler.Key]actor{}, s.young
	}
	s.young[key] = a
}

func (s *actors) forget(key scheduler.Key) {
	delete(s.young, key)
	delete(s.old, key)
}

// take returns who changed a key, and forgets it.
func (s *actors) take(key scheduler.Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.young[key]
	if !known {
		a = s.old[key]
	}
	s.forget(key)
	if time.Since(a.at) > actorKept {
		return ""
	}
	return a.text
}
