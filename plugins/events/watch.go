package events

import (
	"context"
	"errors"
)

// ErrTooManyWatchers: there is no room for one more.
var ErrTooManyWatchers = errors.New("too many watch the events already")

// maxWatchers bounds what an event costs.
const maxWatchers = 256

// Gap says that events are missing: they were dropped before they were read.
type Gap struct {
	// From is the first number that was to come, To the last one that is
	// missing. Of those between, some may still come: rare types are kept longer.
	From, To uint64
	// Foreign: the place to go on from is none of this log, which begins anew.
	Foreign bool
}

// Watcher reads on. One goroutine calls Next.
type Watcher struct {
	log   *Log
	query Query
	wake  chan struct{}

	// What follows belongs to whoever calls Next.
	at   uint64 // the last number that was looked at
	told uint64 // the last number that is missing by the gaps that were told
}

// Watch reads the events that are meant, from the number after on as they
// come. Query.After and Limit do not count. Stop it when done.
func (l *Log) Watch(q Query, after uint64) (*Watcher, error) {
	q.After, q.Limit = 0, 0
	w := &Watcher{log: l, query: q, wake: make(chan struct{}, 1), at: after}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aliases(&w.query)
	if len(l.watchers) >= maxWatchers {
		return nil, ErrTooManyWatchers
	}
	l.watchers[w] = true
	return w, nil
}

// Stop ends the watcher, after the last Next.
func (w *Watcher) Stop() {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	delete(w.log.watchers, w)
}

// At is the last number that was looked at: another watcher can go on after it.
func (w *Watcher) At() uint64 { return w.at }

// rouse wakes the watcher.
func (w *Watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Next blocks until there are events, or some are missing, and returns up to
// a stretch of them, oldest first. gap is nil unless events between the last call and
// these were dropped. It returns ctx.Err() when ctx ends.
func (w *Watcher) Next(ctx context.Context) (found []*Event, gap *Gap, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if found, gap = w.take(); len(found) > 0 || gap != nil {
			return found, gap, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		}
	}
}

// take returns what there is, in steps, so that whoever adds an event does not
// wait for long.
func (w *Watcher) take() (found []*Event, gap *Gap) {
	for {
		run, gap, done := w.step()
		for _, e := range run {
			w.query.renamed(e)
			if w.query.matches(e) {
				found = append(found, e)
			}
		}
		if done || len(found) > 0 || gap != nil {
			return found, gap
		}
	}
}

// step looks at the next few events.
func (w *Watcher) step() (run []*Event, gap *Gap, done bool) {
	l := w.log
	l.mu.RLock()
	defer l.mu.RUnlock()
	if w.at >= l.next {
		gap = &Gap{From: w.at + 1, Foreign: true}
		w.at = 0
	}
	if to := l.missing(&w.query, w.at); to > w.told {
		if gap == nil {
			gap = &Gap{From: w.at + 1}
		}
		gap.To, w.told = to, to
	}
	run, w.at = l.rise(&w.query, w.at)
	return run, gap, w.at == l.next-1
}

// missing is the highest number above after that was dropped, 0 if none was.
func (l *Log) missing(q *Query, after uint64) (seq uint64) {
	if l.lost > after {
		seq = l.lost
	}
	for _, r := range l.rings {
		if q.wants(r.of) && r.dropped > after {
			seq = max(seq, r.dropped)
		}
	}
	return seq
}
