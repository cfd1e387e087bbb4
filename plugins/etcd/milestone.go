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

// wait blocks until the milestone stands at rev or beyond. What was written to
// intent keys comes by itself and soon; for other revisions the store must be
// asked, which nudge does.
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
