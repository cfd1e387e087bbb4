package container

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// listing is how far the lists of a runtime are: one at a time, the next one
// after the last has ended.
type listing struct {
	underway  bool
	nextList  time.Time // zero: not before the stream stands
	cause     string    // why the next one is due
	listFails int
	// listedAt is when the last list began that succeeded.
	listedAt time.Time
	version  string
}

func (l *listing) relistAt(at time.Time, cause string) { l.nextList, l.cause = at, cause }

// startList begins to list. The version is asked along with it: an engine may
// be another one after a reconnect.
func (s *source) startList() {
	began, connects := time.Now(), s.stats.Connects
	s.underway = true
	s.stats.Relists[s.cause]++
	s.jobs.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.t.opts.CallTimeout)
		defer cancel()
		all, err := s.rt.List(ctx)
		took := time.Since(began)
		version := ""
		if err == nil {
			version, err = s.rt.Version(ctx)
		}
		s.t.post(s.ctx, func() {
			s.underway = false
			if err != nil {
				s.listFailed(err)
				return
			}
			s.listed(began, took, connects, version, all)
		})
	})
}

// listFailed changes nothing of what is known.
func (s *source) listFailed(err error) {
	s.listFails++
	s.stats.ListFails++
	if !s.nextList.IsZero() {
		s.relistAt(time.Now().Add(backoff(s.listFails, time.Second, s.t.opts.Relist, s.t.opts.Spread())), "failed")
	}
	s.failed(fmt.Errorf("list: %w", err))
}

// listed takes in a list. One that was asked before the stream broke and came
// back since is believed as to its containers, but another one is due.
func (s *source) listed(began time.Time, took time.Duration, connects int, version string, all []Summary) {
	s.listFails = 0
	s.listedAt, s.version = began, version
	s.stats.Lists++
	s.stats.ListTook = took
	if took > slowList {
		s.stats.SlowLists++
		s.t.opts.Log.Warn("container runtime: a list took long", "runtime", s.rt.Name(), "took", took, "containers", len(all))
	}
	again := s.phase != known
	s.compare(all, again)
	if !s.streaming || connects != s.stats.Connects {
		return
	}
	wait := time.Duration((0.5 + s.t.opts.Spread()) * float64(s.t.opts.Relist))
	s.relistAt(time.Now().Add(wait), "period")
	if again {
		s.await()
	}
}

// slowList is how long a list may take before it is worth a word.
const slowList = time.Second

// compare has inspected what a list shows otherwise than before. What it does
// not show is inspected as well: a list may leave out what the runtime cannot
// read. After a time without a word of the runtime also what failed is tried
// again.
func (s *source) compare(all []Summary, after bool) {
	listed := make(map[string]bool, len(all))
	missed := 0
	for _, sum := range all {
		listed[sum.ID] = true
		_, there := s.entries[sum.ID]
		e := s.entry(sum.ID)
		if changed := !there || e.listed.ID != "" && e.listed.Digest != sum.Digest; changed && !e.hinted && !e.chronicle.existed {
			missed++
		}
		if e.differs(sum) || after && e.fails > 0 {
			s.want(sum.ID)
		} else {
			s.stats.Spared++
		}
		e.listed, e.unlisted, e.hinted = sum, 0, false
	}
	for _, id := range slices.Sorted(maps.Keys(s.former)) {
		s.entry(id) // it was there, and is not listed
	}
	for _, id := range slices.Sorted(maps.Keys(s.entries)) {
		if e := s.entries[id]; !listed[id] {
			e.unlisted++
			if e.unlisted == 1 || e.retryAt.IsZero() || after {
				s.want(id)
			}
			if e.isGone() && !after && !s.outlives(e) {
				s.drop(e)
			}
		}
	}
	if !after {
		s.countMissed(missed)
	}
}

// countMissed counts what a list shows and no hint told. A stream that misses
// something again and again is of no use, though it stands: it is made anew.
func (s *source) countMissed(missed int) {
	s.stats.Missed += uint64(missed)
	if missed == 0 {
		s.missedLists = 0
		return
	}
	if s.missedLists++; s.missedLists >= maxMissedLists && s.streaming {
		s.cut(errMissedEvents)
	}
}

// maxMissedLists is how many lists in a row may show what no hint told. One may: the
// hint may be on its way.
const maxMissedLists = 2

// differs reports whether a list shows a container otherwise than the last one
// did, or than it is known to be. One whose inspect failed is tried again at its
// time, unless what is known of it is wrong for sure.
func (e *entry) differs(sum Summary) bool {
	last := e.listed
	changed := sum.Digest != last.Digest || sum.Name != last.Name || sum.State != last.State || sum.Running != last.Running
	switch {
	case e.isWrong(sum):
		return true
	case !e.retryAt.IsZero():
		return changed && last.ID != ""
	case sum.Digest == "" || changed && e.last.Digest == "":
		return true
	}
	return sum.Running != (e.process != nil)
}

// isWrong reports whether what is known cannot be so, by what the list shows, or is
// not all: it was never read, nor since it ended, looks otherwise, or began later.
func (e *entry) isWrong(sum Summary) bool {
	known := e.last
	switch {
	case e.view == unseen, e.view == over, sum.Name != known.Name, sum.State != "" && sum.State != known.State:
		return true
	case known.Digest != "" && sum.Digest != known.Digest:
		return true
	}
	begun := known.FinishedAt
	if known.Running {
		begun = known.StartedAt
	}
	return !sum.Since.IsZero() && !begun.IsZero() && sum.Since.After(begun)
}
