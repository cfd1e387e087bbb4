package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// WaitForSources blocks until each of the named sources, without names all of
// Options.Sources, has submitted a transaction with Txn.Complete. The error names those
// that have not when ctx ends, or is ErrStopped.
func (s *Scheduler) WaitForSources(ctx context.Context, names ...string) error {
	return s.waitUntil(ctx, "sources not synced", func(l *loop) (silent []string) {
		for _, src := range l.Sources {
			if !src.Synced && (len(names) == 0 || slices.Contains(names, src.Name)) {
				silent = append(silent, src.Name)
			}
		}
		return silent
	})
}

// WaitForKinds blocks until each of the named kinds, without names of all
// that are registered, was read completely at least once. What cannot be read is waited
// for; [Scheduler.Kinds] says why. The error names what was not read when ctx ends, or is
// ErrStopped.
func (s *Scheduler) WaitForKinds(ctx context.Context, names ...string) error {
	return s.waitUntil(ctx, "kinds not read", func(l *loop) (unread []string) {
		for _, k := range l.Kinds.All() {
			if k.Reads && !k.Read && (len(names) == 0 || slices.Contains(names, k.Name)) {
				unread = append(unread, k.Name)
			}
		}
		return unread
	})
}

// synced is what somebody waits for until nothing is missing.
type synced struct {
	missing func(*loop) []string
	met     chan struct{}
}

func (s *Scheduler) waitUntil(ctx context.Context, what string, missing func(*loop) []string) error {
	c := &synced{missing, make(chan struct{})}
	if err := s.call(func(l *loop) { l.syncing = append(l.syncing, c) }); err != nil {
		return err
	}
	select {
	case <-c.met:
		return nil
	case <-s.stopped:
		return ErrStopped
	case <-ctx.Done():
	}
	var left []string
	err := s.call(func(l *loop) {
		l.syncing = slices.DeleteFunc(l.syncing, func(o *synced) bool { return o == c })
		left = missing(l)
	})
	if err != nil || len(left) == 0 {
		return err
	}
	return fmt.Errorf("%s: %s: %w", what, strings.Join(left, ", "), context.Cause(ctx))
}

// checkSynced ends the waiting for what has come.
func (l *loop) checkSynced() {
	l.syncing = slices.DeleteFunc(l.syncing, func(c *synced) bool {
		met := len(c.missing(l)) == 0
		if met {
			close(c.met)
		}
		return met
	})
}
