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
	// gone is since when the runtime has been absent after it was seen.
	gone time.Time

	// streaming is whether the stream of events stands.
	streaming bool
	connects  int
	version   string

	// clock counts lists and inspects in the order of their beginning: a list
	// says nothing about a container that was inspected after it.
	clock     uint64
	listing   bool
	nextList  time.Time // zero: not before the stream stands
	listFails int
	lastList  time.Time
	lists     int

	entries map[string]*entry
	// first are the containers whose first inspect the picture waits for,
	// awaited since when.
	first   map[string]bool
	awaited time.Time
	queue   []string // ids to inspect, oldest first
	busy    int      // inspects under way
	slow    int      // those of them whose last one failed

	mu     sync.Mutex
	hints  map[string]bool
	events int
}

func newSource(t *Tracker, rt Runtime) *source {
	return &source{
		t: t, rt: rt, since: time.Now(),
		reason:  "was not reached yet",
		entries: map[string]*entry{}, first: map[string]bool{}, hints: map[string]bool{},
	}
}

// follow keeps a stream of events open, for ever.
func (s *source) follow() {
	for fails := 1; s.ctx.Err() == nil; fails++ {
		var up time.Time
		err := s.rt.Events(s.ctx, func() {
			up = time.Now()
			s.t.post(s.ctx, s.connected)
		}, s.hint)
		if !up.IsZero() && time.Since(up) >= steady {
			fails = 1
		}
		s.t.post(s.ctx, func() { s.disconnected(!up.IsZero(), err) })
		pause(s.ctx, backoff(fails, firstRetry, mostRetry, s.t.opts.Spread()))
	}
}

// hint notes that a container may have changed.
func (s *source) hint(h Hint) {
	s.mu.Lock()
	s.hints[h.ID] = true
	s.events++
	s.mu.Unlock()
	select {
	case s.t.wake <- struct{}{}:
	default:
	}
}

func (s *source) takeHints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Sorted(maps.Keys(s.hints))
	clear(s.hints)
	return ids
}

func (s *source) connected() {
	s.streaming = true
	s.connects++
	s.nextList = time.Now()
}

// disconnected comes when a stream ended or could not be had. A stream that
// breaks is not yet a runtime that is gone: the next try will tell, and until
// then the processes that are held vouch for their containers.
func (s *source) disconnected(was bool, err error) {
	s.streaming = false
	s.nextList = time.Time{}
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

// isAbsent tells whether a runtime that is not there was never there, or has
// been away for long and left no process behind.
func (s *source) isAbsent() bool {
	if len(s.entries) == 0 {
		return true
	}
	if s.gone.IsZero() {
		s.gone = time.Now()
	}
	for _, e := range s.entries {
		if e.hold != nil {
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
	for _, id := range s.takeHints() {
		s.want(id)
	}
	for _, id := range s.dueRetries(now) {
		s.want(id)
	}
	if !s.listing && !s.nextList.IsZero() && !now.Before(s.nextList) {
		s.startList()
	}
	s.startInspects()
	if s.phase == reading && len(s.first) == 0 {
		s.gone = time.Time{}
		s.enter(known, "")
	}
}

func (s *source) dueRetries(now time.Time) []string {
	var ids []string
	for id, e := range s.entries {
		if !e.retryAt.IsZero() && !now.Before(e.retryAt) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// due is when work has something to do next, zero if it need not be woken.
func (s *source) due() time.Time {
	var due time.Time
	earlier := func(at time.Time) {
		if !at.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	if !s.listing {
		earlier(s.nextList)
	}
	for _, e := range s.entries {
		earlier(e.retryAt)
	}
	return due
}

// startList begins to list. The version is asked along with it: an engine may
// be another one after a reconnect.
func (s *source) startList() {
	s.clock++
	at, connects := s.clock, s.connects
	s.listing = true
	s.jobs.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.t.opts.CallTimeout)
		defer cancel()
		all, err := s.rt.List(ctx)
		version := ""
		if err == nil {
			version, err = s.rt.Version(ctx)
		}
		s.t.post(s.ctx, func() { s.listed(at, connects, version, all, err) })
	})
}

// listed takes in a list. A failed one changes nothing of what is known. One
// that was asked before the stream broke and came back since is believed as to
// its containers, but another one is due.
func (s *source) listed(at uint64, connects int, version string, all []Summary, err error) {
	s.listing = false
	now := time.Now()
	if err != nil {
		s.listFails++
		if !s.nextList.IsZero() {
			s.nextList = now.Add(backoff(s.listFails, time.Second, s.t.opts.Relist, s.t.opts.Spread()))
		}
		s.failed(fmt.Errorf("list: %w", err))
		return
	}
	s.listFails = 0
	s.lastList = now
	s.lists++
	s.version = version
	s.compare(at, all)
	if !s.streaming || connects != s.connects {
		return
	}
	s.nextList = now.Add(time.Duration((0.5 + s.t.opts.Spread()) * float64(s.t.opts.Relist)))
	if s.phase != known {
		s.await()
	}
}

// compare brings the entries in line with a list that began at the given time.
func (s *source) compare(at uint64, all []Summary) {
	listed := make(map[string]bool, len(all))
	for _, sum := range all {
		listed[sum.ID] = true
		if e := s.entries[sum.ID]; e != nil && e.hold != nil && e.asOf < at && !sum.Running {
			s.end(e, "the runtime no longer lists it as running")
		}
		s.want(sum.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(s.entries)) {
		switch e := s.entries[id]; {
		case listed[id]:
		case e.asOf < at:
			s.drop(e)
		default:
			s.want(id)
		}
	}
}

// await begins the wait for the first inspects of containers never seen.
func (s *source) await() {
	s.enter(reading, "is being read")
	s.awaited = time.Now()
	for id, e := range s.entries {
		if !e.seen {
			s.first[id] = true
		}
	}
}

// stop lets go of everything once the loop has ended.
func (s *source) stop() {
	s.forgetAll()
	s.enter(stopped, "is no longer tracked")
}

func (s *source) forgetAll() {
	for _, e := range s.entries {
		s.drop(e)
	}
}
