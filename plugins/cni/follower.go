package cni

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/plumb-net/plumb/scheduler"
)

// follower wakes those who wait for keys. There is one watcher for all of them. The
// zero value is ready.
type follower struct {
	pods podIndex

	mu    sync.Mutex
	waits map[scheduler.Key]map[chan struct{}]bool
}

// run passes on what the watcher tells, until ctx ends.
func (f *follower) run(ctx context.Context, w *scheduler.Watcher) error {
	defer w.Stop()
	for {
		changes, _, err := w.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		keys := f.pods.concerned(changes)
		for _, c := range changes {
			keys = append(keys, c.Key)
		}
		if len(keys) > 0 {
			f.tell(keys...)
		}
	}
}

// tell wakes those who wait for one of the keys, or everybody.
func (f *follower) tell(keys ...scheduler.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(keys) == 0 {
		keys = slices.Collect(maps.Keys(f.waits))
	}
	for _, k := range keys {
		for ch := range f.waits[k] {
			select {
			case ch <- struct{}{}:
			default: // it is awake
			}
		}
	}
}

// follow tells of changes of the keys until stop.
func (f *follower) follow(keys []scheduler.Key) (news <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waits == nil {
		f.waits = map[scheduler.Key]map[chan struct{}]bool{}
	}
	for _, k := range keys {
		if f.waits[k] == nil {
			f.waits[k] = map[chan struct{}]bool{}
		}
		f.waits[k][ch] = true
	}
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, k := range keys {
			delete(f.waits[k], ch)
			if len(f.waits[k]) == 0 {
				delete(f.waits, k)
			}
		}
	}
}
