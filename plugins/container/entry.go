package container

import (
	"context"
	"errors"
	"time"
)

// How long a container whose inspect failed waits for the next one.
const (
	firstReinspect = time.Second
	mostReinspect  = 5 * time.Minute
	// firstTries is how many failures the first picture waits for, unless they
	// take longer than one call may.
	firstTries = 3
)

// entry is what is known of one container.
type entry struct {
	id string
	// seen is whether an inspect ever succeeded; what follows counts only then.
	seen  bool
	last  Container
	label string
	// hold is the container's process while it lives.
	hold *hold
	// over is the life that the kernel said has ended, so that a runtime which
	// has not noticed yet does not bring it back.
	over run
	// vanished: the runtime says it runs, but the process is not there.
	vanished bool

	// asOf is when, on the clock of the source, the last inspect began.
	asOf     uint64
	queued   bool
	busy     bool
	again    bool // a hint came while busy
	slow     bool // began as a retry
	err      error
	fails    int
	retryAt  time.Time
	endedNow bool // ended while the runtime did not answer
}

// want has a container inspected soon.
func (s *source) want(id string) {
	e := s.entries[id]
	if e == nil {
		e = &entry{id: id}
		s.entries[id] = e
	}
	e.retryAt = time.Time{}
	switch {
	case e.busy:
		e.again = true
	case !e.queued:
		e.queued = true
		s.queue = append(s.queue, id)
	}
}

// startInspects begins as many inspects as may run at once. Containers whose
// last one failed get at most half of the places, so that those that hang do
// not keep out the others.
func (s *source) startInspects() {
	var later []string
	for i, id := range s.queue {
		if s.busy >= s.t.opts.Parallel {
			later = append(later, s.queue[i:]...)
			break
		}
		e := s.entries[id]
		if e == nil || !e.queued {
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
	s.clock++
	e.asOf = s.clock
	e.queued, e.busy, e.again = false, true, false
	e.slow = e.fails > 0
	s.count(e, 1)
	var held run
	if e.hold != nil {
		held = e.hold.run
	}
	s.jobs.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.t.opts.CallTimeout)
		defer cancel()
		seen, err := s.look(ctx, e.id, held)
		if !s.t.post(s.ctx, func() { s.inspected(e, seen, err) }) {
			s.release(seen.hold)
		}
	})
}

func (s *source) count(e *entry, by int) {
	s.busy += by
	if e.slow {
		s.slow += by
	}
}

// inspected takes in the outcome of an inspect.
func (s *source) inspected(e *entry, seen sighting, err error) {
	s.count(e, -1)
	e.busy = false
	if s.entries[e.id] != e { // dropped meanwhile
		s.release(seen.hold)
		return
	}
	switch {
	case errors.Is(err, ErrNotFound):
		s.drop(e)
		return
	case err == nil:
		err = s.settle(e, seen)
	}
	if err != nil {
		s.setBack(e, err)
	} else {
		e.err, e.fails = nil, 0
		delete(s.first, e.id)
	}
	if e.again {
		s.want(e.id)
	}
}

// setBack notes a failure and when to try again.
func (s *source) setBack(e *entry, err error) {
	e.fails++
	e.retryAt = time.Now().Add(backoff(e.fails, firstReinspect, mostReinspect, s.t.opts.Spread()))
	if e.fails >= firstTries || time.Since(s.awaited) >= s.t.opts.CallTimeout {
		delete(s.first, e.id)
	}
	if errors.Is(err, errBehind) {
		return // the kernel is quicker than the runtime: no fault
	}
	if e.err == nil {
		s.t.opts.Log.Warn("container cannot be inspected", "container", s.rt.Name()+":"+e.id, "error", err)
	}
	e.err = err
	s.t.changed = true
}

var (
	errBehind   = errors.New("its process has ended, but the runtime still says that it runs")
	errVanished = errors.New("its process is not visible; does the agent run in the pid namespace of the host?")
)

// settle takes in a sighting. Its error means that the truth is not yet told.
func (s *source) settle(e *entry, seen sighting) error {
	now := seen.run()
	if seen.hold != nil && seen.hold.ended {
		s.release(seen.hold)
		seen.hold, seen.vanished = nil, true
		e.over = now
	}
	if now != (run{}) && now == e.over {
		s.release(seen.hold)
		return errBehind
	}
	if e.hold != nil && e.hold.run != now {
		s.release(e.hold)
		e.hold = nil
	}
	if seen.hold != nil {
		e.hold = seen.hold
	}
	e.last = seen.Container
	e.last.Env = nil
	e.label = serviceLabel(seen.Container, s.t.opts.LabelEnv, s.t.opts.LabelKey)
	e.seen, e.over, e.endedNow = true, run{}, false
	e.vanished = seen.vanished
	s.t.changed = true
	if e.vanished {
		return errVanished
	}
	return nil
}

// processEnded comes from the kernel, also when the runtime is silent.
func (s *source) processEnded(id string, h *hold) {
	h.ended = true
	if e := s.entries[id]; e != nil && e.hold == h {
		e.over = h.run
		s.end(e, "its process ended")
		s.want(id)
	}
}

// end notes that a container's process is over, before its runtime tells more.
func (s *source) end(e *entry, why string) {
	s.release(e.hold)
	e.hold = nil
	e.endedNow = true
	e.last.State, e.last.Running, e.last.Pid = "exited", false, 0
	e.last.FinishedAt = time.Now()
	e.last.ExitCode, e.last.Reason = -1, why
	e.last.Addresses = nil
	s.t.changed = true
}

// drop forgets a container that is gone.
func (s *source) drop(e *entry) {
	if e.hold != nil {
		s.release(e.hold)
	}
	e.queued = false
	delete(s.entries, e.id)
	delete(s.first, e.id)
	s.t.changed = true
}

// members are the containers that can be spoken of, and those of them that
// ended while nobody could say what came after.
func (s *source) members() (all, ended []*member) {
	sure := s.phase == known || s.phase == reading
	for _, e := range s.entries {
		if known := sure || e.hold != nil || e.endedNow; !known || !e.seen {
			continue
		}
		m := &member{runtime: s.rt.Name(), Container: e.last, label: e.label}
		switch {
		case e.hold != nil:
			m.netns = e.hold.Netns
		case e.vanished:
			m.trouble = errVanished.Error()
		}
		all = append(all, m)
		if e.endedNow {
			ended = append(ended, m)
		}
	}
	return all, ended
}
