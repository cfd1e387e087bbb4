package container

import (
	"context"
	"errors"
	"slices"
	"time"
)

// fewFails is how many failures in a row are worth a word: after one it may be the
// runtime itself that is away, which is told then.
const fewFails = 2

// How long a container whose inspect failed waits for the next one.
const (
	firstReinspect = time.Second
	mostReinspect  = 5 * time.Minute
)

// turn is where a container stands with its inspects.
type turn int

const (
	idle     turn = iota
	queued        // for one
	underway      // one is
	repeat        // one is, and another one is wanted
)

// inspecting is how far the inspects of one container are: at most one is under
// way, and one more wanted, however many hints came.
type inspecting struct {
	// asOf is when the last inspect that succeeded began.
	asOf    time.Time
	began   time.Time
	turn    turn
	slow    bool // began as a retry
	err     error
	fails   int
	logged  bool // that it fails
	retryAt time.Time
}

// want has a container inspected soon.
func (s *source) want(id string) {
	e := s.entry(id)
	e.retryAt = time.Time{}
	switch e.turn {
	case underway:
		e.turn = repeat
	case idle:
		e.turn = queued
		s.queue = append(s.queue, id)
	}
}

// startInspects begins as many inspects as may run at once. Containers whose
// last one failed get at most half of the places, so that those that hang do
// not keep out the others.
func (s *source) startInspects() {
	if s.busy >= s.t.opts.Parallel {
		return
	}
	var later []string
	for i, id := range s.queue {
		if s.busy >= s.t.opts.Parallel {
			later = append(later, s.queue[i:]...)
			break
		}
		e := s.entries[id]
		if e == nil || e.turn != queued {
			continue
		}
		if e.fails > 0 && s.slow >= max(1, s.t.opts.Parallel/2) {
			later = append(later, id)
			continue
		}
		s.startInspect(e)
	}
	s.queue = later
}

func (s *source) startInspect(e *entry) {
	e.began = time.Now()
	e.turn = underway
	e.slow = e.fails > 0
	s.count(e, 1)
	s.stats.Inspects++
	var held run
	if e.process != nil {
		held = e.process.run
	}
	s.jobs.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.t.opts.CallTimeout)
		defer cancel()
		seen, err := s.look(ctx, e.id, held)
		if !s.t.post(s.ctx, func() { s.inspected(e, seen, err) }) {
			s.release(seen.process)
		}
	})
}

// inspectDone ends a turn, and reports whether another one is wanted.
func (s *source) inspectDone(e *entry) (wanted bool) {
	s.count(e, -1)
	wanted = e.turn == repeat
	e.turn = idle
	return wanted
}

func (s *source) count(e *entry, by int) {
	s.busy += by
	if e.slow {
		s.slow += by
	}
}

// recovered notes an inspect that succeeded.
func (s *source) recovered(e *entry) {
	if e.err != nil {
		s.t.changed = true
	}
	e.err, e.fails, e.asOf, e.logged = nil, 0, e.began, false
	s.aged = append(s.aged, e)
	delete(s.first, e.id)
}

// recordFailure notes a failure and when to try again.
func (s *source) recordFailure(e *entry, err error) {
	e.fails++
	s.timed[e] = true
	e.retryAt = time.Now().Add(backoff(e.fails, firstReinspect, mostReinspect, s.t.opts.Spread()))
	if e.fails >= mostTries || time.Since(s.awaited) >= s.t.opts.CallTimeout {
		delete(s.first, e.id)
	}
	if errors.Is(err, errStale) {
		return // the kernel is quicker than the runtime: no fault
	}
	s.stats.InspectFails++
	// An outage of the runtime is no matter of each container.
	if e.fails >= fewFails && s.phase == known && !e.logged {
		e.logged = true
		s.t.opts.Log.Warn("container cannot be inspected", "container", s.rt.Name()+":"+e.id, "error", err)
	}
	e.err = err
	s.t.changed = true
	s.believeList(e)
}

// believeList lets the list tell of an end that inspects fail to confirm.
func (s *source) believeList(e *entry) {
	dead := e.listed.ID != "" && !e.listed.Running && e.chronicle.runs.Alive() && e.process == nil
	if dead && e.view != unseen && s.phase == known && e.fails >= mostTries && !errors.Is(e.err, errVanished) {
		s.end(e, "the runtime no longer lists it as running")
	}
}

// isGone reports whether a container that lists leave out, again and again, and
// that cannot be inspected, is taken for removed. Its process must have ended. The
// runtime must be one that answers: this is asked when a list has come in, and not
// the first one after an outage.
func (e *entry) isGone() bool {
	return e.process == nil && e.unlisted > 1 && e.fails >= mostTries && e.err != nil && !errors.Is(e.err, errVanished)
}

// outlives reports whether the process of a container lives of which only an earlier
// tracker knew.
func (s *source) outlives(e *entry) bool {
	if !e.chronicle.resumed || !e.chronicle.runs.Alive() || e.chronicle.runs.Run.Pid == 0 {
		return false
	}
	h, err := s.open(e.id, run{pid: e.chronicle.runs.Run.Pid})
	if err != nil {
		return false
	}
	defer s.release(h)
	return belongs(h.Cgroup, e.id) == yes
}

func (s *source) dueRetries(now time.Time) []string {
	var ids []string
	for e := range s.timed {
		if !e.retryAt.IsZero() && !now.Before(e.retryAt) {
			ids = append(ids, e.id)
		}
	}
	slices.Sort(ids)
	return ids
}
