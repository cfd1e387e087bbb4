package container

import (
	"fmt"
	"strconv"
	"time"

	"github.com/plumb-net/plumb/models"
)

func (p phase) String() string {
	return [...]string{"starting", "reading", "known", "unknown", "absent", "stopped"}[p]
}

func (t *Tracker) publishHealth() {
	all := make([]models.Health, len(t.sources))
	for i, s := range t.sources {
		all[i] = s.health()
	}
	t.health.Store(&all)
}

// health tells how the runtime stands.
func (s *source) health() models.Health {
	h := models.Health{Name: s.rt.Name(), Reason: s.reason, Since: s.since, Details: s.details()}
	switch s.phase {
	case starting, reading:
		h.State = "starting"
	case absent, stopped:
		h.State = "off"
	case unknown:
		h.State = "down"
	case known:
		h.State = "ok"
		if n, one := s.inError(); n > 0 {
			h.State = "degraded"
			h.Reason = fmt.Sprintf("%d containers cannot be inspected, one of them %s: %v", n, one.id, one.err)
		}
	}
	return h
}

// inError counts the containers whose last inspect failed, and gives the first.
func (s *source) inError() (n int, one *entry) {
	for _, e := range s.entries {
		if e.err == nil {
			continue
		}
		n++
		if one == nil || e.id < one.id {
			one = e
		}
	}
	return n, one
}

func (s *source) details() map[string]string {
	s.mu.Lock()
	events := s.events
	s.mu.Unlock()
	running := 0
	for _, e := range s.entries {
		if e.hold != nil {
			running++
		}
	}
	d := map[string]string{
		"containers": strconv.Itoa(len(s.entries)),
		"running":    strconv.Itoa(running),
		"events":     strconv.Itoa(events),
		"lists":      strconv.Itoa(s.lists),
		"connects":   strconv.Itoa(s.connects),
		"streaming":  strconv.FormatBool(s.streaming),
	}
	if s.version != "" {
		d["version"] = s.version
	}
	if !s.lastList.IsZero() {
		d["last_list"] = s.lastList.UTC().Format(time.RFC3339)
	}
	return d
}
