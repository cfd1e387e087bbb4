package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/progress"
)

// awaited is what a call waits for.
type awaited struct {
	goal    string   // configured, settled or gone
	keys    []string // none: those below targets
	gone    []string // keys that will go
	targets []string // kinds and keys; none: all
}

// progress shows on the terminal how far a call is, until stop is called. It follows the
// keys beside the call; where it cannot, nothing is shown.
func (c *cli) progress(ctx context.Context, a awaited) (stop func()) {
	if c.live == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	s, agent := newStanding(a), c.agent()
	started := time.Now()
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(progress.Delay):
		}
		stream, err := agent.Watch(ctx, &apiv1.WatchRequest{Targets: a.watched(), NoValues: true})
		if err != nil {
			return
		}
		defer stream.Close()
		for stream.Receive() {
			s.take(stream.Msg(), time.Since(started))
		}
		s.lost()
	}()
	line := c.live.Start(s.show)
	return func() { cancel(); line.Stop() }
}

// watched are the targets to follow: the keys, or if they are many their kinds, since
// every change is compared with every target.
func (a awaited) watched() []string {
	all := slices.Concat(a.keys, a.gone)
	if len(all) == 0 {
		return a.targets
	}
	for i, k := range all {
		if len(all) > 16 {
			all[i], _, _ = strings.Cut(k, "/")
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// standing is how far keys are on the way to a goal. Times are since the start.
type standing struct {
	awaited

	mu    sync.Mutex // guards what follows
	known bool       // the first picture is complete
	open  map[string]way
	done  map[string]bool // keys that are at their goal
}

// way is what is known of a key that is not at its goal.
type way struct {
	need string // what it waits for
	from time.Duration
}

func newStanding(a awaited) *standing {
	s := &standing{awaited: a, open: map[string]way{}, done: map[string]bool{}}
	for _, k := range a.keys {
		s.open[k] = way{}
	}
	for _, k := range a.gone {
		s.done[k] = true
	}
	return s
}

// take notes how keys stand.
func (s *standing) take(m *apiv1.WatchResponse, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range m.Changes {
		was, open := s.open[k.Key]
		if !open && !s.done[k.Key] && !s.counts(k) {
			continue
		}
		delete(s.open, k.Key)
		delete(s.done, k.Key)
		if s.reached(k) {
			if s.named() || !isGone(k) {
				s.done[k.Key] = true
			}
			continue
		}
		next := way{from: now}
		if len(k.Missing) > 0 {
			next.need = k.Missing[0].Need
		}
		if open && was.need == next.need {
			next.from = was.from
		}
		s.open[k.Key] = next
	}
	s.known = s.known || m.InSync
}

// lost notes that nobody knows any more how keys stand.
func (s *standing) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = false
}

// named reports whether keys are named, so that others do not count.
func (s *standing) named() bool { return len(s.keys)+len(s.gone) > 0 }

// counts reports whether a new key counts. What is derived comes with its base, and nobody
// waits for what is merely observed.
func (s *standing) counts(k *apiv1.KeyStatus) bool {
	return !s.named() && k.Base == "" && k.State != "observed"
}

// reached reports whether a key is at its goal, as the agent would.
func (s *standing) reached(k *apiv1.KeyStatus) bool {
	switch {
	case s.goal == "gone":
		return isGone(k)
	case s.goal == "settled":
		return !k.Busy
	case len(s.keys) == 0 && (isGone(k) || k.State == "paused"):
		return true
	}
	return isConfigured(k)
}

func isGone(k *apiv1.KeyStatus) bool { return k.State == "absent" || k.State == "removed" }

func isConfigured(k *apiv1.KeyStatus) bool {
	return !k.Busy && (k.State == "configured" || k.State == "observed") &&
		!slices.ContainsFunc(k.Derived, func(d *apiv1.KeyStatus) bool { return !isConfigured(d) })
}

// show says it in parts, the most important first.
func (s *standing) show(elapsed time.Duration) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return nil
	}
	parts := []string{
		fmt.Sprintf("%d of %d %s", len(s.done), len(s.done)+len(s.open), s.goal),
		progress.Time(elapsed),
	}
	var waits, slowest string
	for _, k := range slices.Sorted(maps.Keys(s.open)) {
		switch w := s.open[k]; {
		case w.need != "":
			waits = cmp.Or(waits, k)
		case slowest == "" || w.from < s.open[slowest].from:
			slowest = k
		}
	}
	if waits != "" {
		parts = append(parts, fmt.Sprintf("%s waits for %s", waits, s.open[waits].need))
	}
	if slowest != "" {
		if takes := elapsed - s.open[slowest].from; takes >= time.Second {
			parts = append(parts, fmt.Sprintf("slowest: %s %s", slowest, progress.Time(takes)))
		}
	}
	return parts
}
