package cri

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
)

// An engine without events is listed every pollPeriod; a list that takes longer
// than pollTimeout is an error.
const (
	pollPeriod  = time.Second
	pollTimeout = 10 * time.Second
)

// poll lists again and again. What differs is passed on by List itself, so that
// no other list shows what no hint told.
func (e *Engine) poll(ctx context.Context, ready func(), hint func(container.Hint)) error {
	e.lists.begin(hint)
	defer e.lists.end()
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for first := true; ; first = false {
		if err := e.listOnce(ctx); err != nil {
			return fmt.Errorf("no events, and no list instead: %w", err)
		}
		if first {
			ready()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (e *Engine) listOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	_, err := e.List(ctx)
	return err
}

// lists tells one list from the next, while somebody wants to know.
type lists struct {
	mu   sync.Mutex
	hint func(container.Hint)
	last map[string]string // by id, nil before the first list
}

func (l *lists) begin(hint func(container.Hint)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hint, l.last = hint, nil
}

func (l *lists) end() { l.begin(nil) }

// compare passes on what differs from the list before. Two lists at once may
// come in the wrong order; then too much is passed on.
func (l *lists) compare(all []container.Summary) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hint == nil {
		return
	}
	now := make(map[string]string, len(all))
	for _, s := range all {
		now[s.ID] = s.Digest
		if was, there := l.last[s.ID]; l.last != nil && (!there || was != s.Digest) {
			l.hint(container.Hint{ID: s.ID})
		}
	}
	for id := range l.last {
		if _, there := now[id]; !there {
			l.hint(container.Hint{ID: id})
		}
	}
	l.last = now
}
