package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// phase is how far a source is.
type phase int

const (
	starting phase = iota // nothing was heard yet
	reading               // listed; containers never seen before are being inspected
	known                 // what is known is all there is
	unknown               // the runtime does not answer
	absent                // there is no such runtime
	stopped               // the tracker ended
)

// How often a source that is not there is tried again, and how long a runtime
// that was seen may be away, with none of its processes left, before it counts
// as removed from the host.
const (
	firstRetry  = 100 * time.Millisecond
	mostRetry   = 5 * time.Second
	steady      = time.Second // a stream that lived so long is retried at once
	absentGrace = time.Minute
)

// source is one runtime with what is known of its containers. Its fields
// belong to the loop of the tracker, but for the hints.
type source struct {
	t    *Tracker
	rt   Runtime
	ctx  context.Context
	jobs *sync.WaitGroup

	phase  phase
	reason string
	since  time.Time
	synced bool // was known, or absent, once
	// wasKnown: known once; what turns up later is new.
	wasKnown bool
	// gone is since when the runtime has been absent after it was seen.
	gone time.Time

	// streaming is whether the stream of events stands, firstConnect when it
	// did first.
	streaming    bool
	cut          context.CancelCauseFunc // ends the stream
	missedLists  int                     // lists in a row that showed what no hint told
	firstConnect time.Time
	stats        RuntimeHealth

	listing

	entries map[string]*entry
	// former are containers of which an earlier tracker told and nothing was
	// heard yet.
	former  map[string]*former
	removed removed
	// timed are the entries for which something is due, perhaps.
	timed map[*entry]bool
	// first are the containers whose first inspect the snapshot waits for,
	// awaited since when.
	first   map[string]bool
	awaited time.Time
	queue   []string // ids to inspect, oldest first
	aged    []*entry // inspected or dropped since the snapshot was published
	busy    int      // inspects under way
	slow    int      // those of them whose last one failed

	hints hintQueue
}

func newSource(t *Tracker, rt Runtime) *source {
	return &source{
		t: t, rt: rt, since: time.Now(),
		reason:  "was not reached yet",
		entries: map[string]*entry{}, former: formerLives(rt.Name(), t.opts.Earlier), timed: map[*entry]bool{}, first: map[string]bool{},
		stats: RuntimeHealth{Relists: map[string]int{}},
		hints: hintQueue{byID: map[string][]Hint{}},
	}
}

// hintQueue takes hints from the stream, as fast as it brings them, and keeps them
// by container until the loop has time. What is kept of one container is
// bounded; no container is ever left out.
type hintQueue struct {
	mu    sync.Mutex
	byID  map[string][]Hint
	hints uint64
	// joined is how many came for a container that waited already.
	joined uint64
	last   time.Time
}

func (q *hintQueue) put(h Hint) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hints++
	q.last = time.Now()
	all, waits := q.byID[h.ID]
	if waits {
		q.joined++
	}
	if h.Says != "" && len(all) < mostEvidence {
		all = append(all, h)
	}
	q.byID[h.ID] = all
}

func (q *hintQueue) take() map[string][]Hint {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.byID) == 0 {
		return nil
	}
	all := q.byID
	q.byID = map[string][]Hint{}
	return all
}

// follow keeps a stream of events open, for ever.
func (s *source) follow() {
	for fails := 1; s.ctx.Err() == nil; fails++ {
		up, err := s.stream()
		if !up.IsZero() && time.Since(up) >= steady {
			fails = 1
		}
		s.t.post(s.ctx, func() { s.disconnected(!up.IsZero(), err) })
		pause(s.ctx, backoff(fails, firstRetry, mostRetry, s.t.opts.Spread()))
	}
}

// stream is one stream of events, from when it stood, if it ever did. A runtime
// that takes the subscription and says nothing is given up in time.
func (s *source) stream() (up time.Time, err error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	timer := time.AfterFunc(s.t.opts.CallTimeout, func() { cancel(errNoStream) })
	defer timer.Stop()
	var pings sync.WaitGroup
	defer pings.Wait()
	err = s.rt.Events(ctx, func() {
		if timer.Stop() {
			up = time.Now()
			s.t.post(s.ctx, func() { s.connected(cancel) })
			if p, ok := s.rt.(Pinger); ok {
				pings.Go(func() { s.ping(ctx, p) })
			}
		}
	}, s.hint)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	return up, err
}

// How often a runtime with a standing stream is asked whether it answers, and how long
// it may take: together less than ten seconds.
const (
	pingEvery   = 4 * time.Second
	pingTimeout = 4 * time.Second
)

// ping asks the runtime for as long as ctx stands, and has it known when it gives no
// answer, and listed when it answers again.
func (s *source) ping(ctx context.Context, p Pinger) {
	for failing := false; pause(ctx, pingEvery); {
		once, cancel := context.WithTimeout(ctx, min(pingTimeout, s.t.opts.CallTimeout))
		err := p.Ping(once)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.t.post(ctx, func() { s.failed(fmt.Errorf("ping: %w", err)) })
		} else if failing {
			s.t.post(ctx, func() { s.relistAt(time.Now(), "answers") })
		}
		failing = err != nil
	}
}

var (
	errNoStream     = errors.New("the subscription to events got no answer in time")
	errMissedEvents = errors.New("the stream of events did not tell what the lists show")
)

// hint notes that a container may have changed.
func (s *source) hint(h Hint) {
	s.hints.put(h)
	s.t.wakeLoop()
}

// takeHints has every container inspected of which there is a hint.
func (s *source) takeHints() {
	all := s.hints.take()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if old := s.removed.find(id); old != nil && s.entries[id] == nil {
			for _, h := range all[id] {
				s.tell(old.entry, old.entry.chronicle.late(h))
			}
		}
		e := s.entry(id)
		e.hinted = true
		for _, h := range all[id] {
			s.tell(e, e.chronicle.late(h))
			e.chronicle.hint(h)
		}
		s.tellEnd(e)
		s.want(id)
	}
}

func (s *source) connected(cut context.CancelCauseFunc) {
	s.streaming, s.cut, s.missedLists = true, cut, 0
	if s.firstConnect.IsZero() {
		s.firstConnect = time.Now()
	}
	s.stats.Connects++
	s.stats.ConnectedSince = time.Now()
	s.relistAt(time.Now(), "connected")
}

// disconnected comes when a stream ended or could not be had. A stream that
// breaks is not yet a runtime that is gone: the next try will tell, and until
// then the processes that are held vouch for their containers.
func (s *source) disconnected(was bool, err error) {
	s.streaming = false
	s.stats.ConnectedSince = time.Time{}
	s.relistAt(time.Time{}, "")
	if err == nil {
		err = errors.New("the stream of events ended")
	}
	s.t.opts.Log.Debug("container runtime: no events", "runtime", s.rt.Name(), "error", err)
	if !was {
		s.failed(err)
	}
}

// failed notes that the runtime does not answer.
func (s *source) failed(err error) {
	if errors.Is(err, ErrAbsent) && s.isAbsent() {
		s.forgetAll()
		s.enter(absent, err.Error())
		return
	}
	if !errors.Is(err, ErrAbsent) {
		s.gone = time.Time{}
	}
	s.enter(unknown, "does not answer: "+err.Error())
}

// isAbsent reports whether a runtime that is not there was never there, or has
// been away for long and left no process behind.
func (s *source) isAbsent() bool {
	if len(s.entries) == 0 {
		return true
	}
	if s.gone.IsZero() {
		s.gone = time.Now()
	}
	for _, e := range s.entries {
		if e.process != nil {
			return false
		}
	}
	return time.Since(s.gone) >= absentGrace
}

func (s *source) enter(p phase, reason string) {
	if s.phase == p && s.reason == reason {
		return
	}
	if s.phase != p {
		s.since = time.Now()
		log := s.t.opts.Log.Info
		if p == unknown {
			log = s.t.opts.Log.Warn
		}
		log("container runtime", "runtime", s.rt.Name(), "state", p.String(), "reason", reason)
	}
	s.phase, s.reason = p, reason
	s.synced = s.synced || p == known || p == absent
	s.wasKnown = s.wasKnown || p == known
	s.t.changed = true
}

// unknown says why the containers of the runtime are not known; "" if they are.
func (s *source) unknown() string {
	switch s.phase {
	case known, absent:
		return ""
	case reading:
		if ids := slices.Sorted(maps.Keys(s.first)); len(ids) > 0 && s.entries[ids[0]].err != nil {
			return fmt.Sprintf("%s; container %s: %v", s.reason, ids[0], s.entries[ids[0]].err)
		}
	}
	return s.reason
}

// work starts what is due.
func (s *source) work() {
	now := time.Now()
	s.takeHints()
	for _, id := range s.dueRetries(now) {
		s.want(id)
	}
	s.tellLate(now)
	if !s.underway && !s.nextList.IsZero() && !now.Before(s.nextList) {
		s.startList()
	}
	s.startInspects()
	if s.phase == reading && len(s.first) == 0 {
		s.gone = time.Time{}
		s.enter(known, "")
	}
}

// due is when work has something to do next, zero if it need not be woken.
func (s *source) due() time.Time {
	var due time.Time
	earlier := func(at time.Time) {
		if !at.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	if !s.underway {
		earlier(s.nextList)
	}
	for e := range s.timed {
		late := e.lateAt()
		if e.retryAt.IsZero() && late.IsZero() {
			delete(s.timed, e)
		}
		earlier(e.retryAt)
		earlier(late)
	}
	return due
}

// await begins the wait for the first inspects of containers never seen.
func (s *source) await() {
	s.enter(reading, "is being read")
	s.awaited = time.Now()
	for id, e := range s.entries {
		if e.view == unseen {
			s.first[id] = true
		}
	}
}

// stop lets go of everything once the loop has ended.
func (s *source) stop() {
	for _, e := range s.entries {
		s.forget(e)
	}
	s.enter(stopped, "stopped watching it")
}

// forgetAll drops the containers of a runtime that was removed from the host.
func (s *source) forgetAll() {
	for _, id := range slices.Sorted(maps.Keys(s.entries)) {
		s.drop(s.entries[id])
	}
}
