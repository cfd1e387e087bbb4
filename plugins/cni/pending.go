package cni

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// Pending is an ADD that waits.
type Pending struct {
	Key   Key
	Since time.Time
	// Waits says for what: the first key that is not configured, and why.
	Waits string
}

// waitsFor notes what an ADD waits for, nothing if it waits no more.
func (s *Service) waitsFor(k Key, waits string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waits == "" {
		delete(s.pending, k)
		return
	}
	p, there := s.pending[k]
	if !there {
		p = Pending{Key: k, Since: time.Now()}
	}
	p.Waits = waits
	s.pending[k] = p
}

// unread says of what a key needs why it cannot be read: a namespace that cannot be
// opened, for want of files or because it is none.
func (s *Service) unread(ctx context.Context, of scheduler.Status) (reasons string) {
	for _, m := range of.Missing {
		st, err := s.engine.Get(ctx, scheduler.Key(m.Need))
		if err == nil && st.State == scheduler.Unknown && st.Reason != "" {
			reasons += fmt.Sprintf("; %s is %s: %s", m.Need, st.State, st.Reason)
		}
	}
	return reasons
}

// Pending are the ADDs that wait, sorted.
func (s *Service) Pending() []Pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Pending, 0, len(s.pending))
	for _, p := range s.pending {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Pending) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return list
}

// Attachments are all that there are, also half made ones, sorted.
func (s *Service) Attachments() []Attachment { return s.store.Of("") }
