package container

import (
	"slices"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
)

// ages is how old is what is known. It moves also when nothing else does, so it
// is no part of the snapshot; it is brought up to date once the snapshot is.
type ages struct {
	news signal
	mu   sync.Mutex
	// inspected is, by <runtime>:<id>, when the last good inspect began; listed,
	// by runtime, when the last list began of which all is in the snapshot.
	inspected map[string]time.Time
	listed    map[string]time.Time
}

// always is the age of the lists of a runtime that is not there.
var always = time.Unix(1<<40, 0)

// updateAges lets readers know how new the published snapshot is.
func (t *Tracker) updateAges() {
	a := &t.ages
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listed == nil {
		a.listed, a.inspected = map[string]time.Time{}, map[string]time.Time{}
	}
	moved := false
	for _, s := range t.sources {
		for _, e := range s.aged {
			moved = true
			key := s.rt.Name() + ":" + e.id
			if s.entries[e.id] == e {
				a.inspected[key] = e.asOf
			} else {
				delete(a.inspected, key)
			}
		}
		s.aged = nil
		name, at := s.rt.Name(), s.listedAt
		if s.phase == absent {
			at = always
		}
		if !a.listed[name].Equal(at) && s.digested() {
			a.listed[name] = at
			moved = true
		}
	}
	if moved {
		a.news.give()
	}
}

// digested reports whether the snapshot has all that the last list brought.
func (s *source) digested() bool {
	for _, e := range s.entries {
		if (e.view == unseen || e.unlisted > 0) && e.fails == 0 {
			return false
		}
	}
	return true
}

func (a *ages) seenSince(c *models.Container, after time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.inspected[c.Runtime+":"+c.ContainerId]
	return ok && !at.Before(after)
}

func (a *ages) listedSince(sources []*source, after time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !slices.ContainsFunc(sources, func(s *source) bool { return a.listed[s.rt.Name()].Before(after) })
}
