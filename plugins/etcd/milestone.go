package etcd

import (
	"context"
	"sync"
	"time"
)

// milestone is a revision that others wait for.
type milestone struct {
	mu    sync.Mutex // guards what follows
	rev   int64
	moved chan struct{} // closed at the next move; nil while nobody waits
}

// set moves the milestone, back too: another store starts low.
func (m *milestone) set(rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rev == rev {
		return
	}
	m.rev = rev
	if m.moved != nil {
		close(m.moved)
		m.moved = nil
	}
}

// raise moves the milestone forward only.
func (m *milestone) raise(rev int64) {
	if rev > m.get() {
		m.set(rev)
	}
}

func (m *milestone) get() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rev
}

// next returns the revision and a channel that is closed when it moves.
func (m *milestone) next() (int64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == nil {
		m.moved = make(chan struct{})
	}
	return m.rev, m.moved
}

// wait blocks until the milestone stands at rev or beyond. nudge is called now
// and then, in case it would not move by itself.
func (m *milestone) wait(ctx context.Context, rev int64, nudge func()) error {
	impatience := 20 * time.Millisecond
	t := time.NewTimer(impatience)
	defer t.Stop()
	for {
		at, moved := m.next()
		if at >= rev {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-t.C:
			nudge()
			impatience = min(2*impatience, time.Second)
			t.Reset(impatience)
		}
	}
}
