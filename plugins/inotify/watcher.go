// Package inotify gives hints that something in a directory may have changed.
package inotify

import (
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher watches directories. Its methods may be called by one goroutine at a time.
type Watcher struct {
	w    *fsnotify.Watcher
	hint chan struct{}
	done sync.WaitGroup
}

// New returns a watcher that watches nothing yet.
func New() (*Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	i := &Watcher{w: w, hint: make(chan struct{}, 1)}
	i.done.Go(i.run)
	return i, nil
}

// run turns events and errors, lost events among them, into hints.
func (i *Watcher) run() {
	events, errs := i.w.Events, i.w.Errors
	for events != nil || errs != nil {
		var ok bool
		select {
		case _, ok = <-events:
			if !ok {
				events = nil
			}
		case _, ok = <-errs:
			if !ok {
				errs = nil
			}
		}
		if !ok {
			continue
		}
		select {
		case i.hint <- struct{}{}:
		default: // one is waiting
		}
	}
}

// Add watches a directory. It may be watched already, or have been another one under the same name.
func (i *Watcher) Add(dir string) error { return i.w.Add(dir) }

// Keep ends the watching of all other directories.
func (i *Watcher) Keep(dirs []string) {
	for _, dir := range i.w.WatchList() {
		if !slices.Contains(dirs, dir) {
			_ = i.w.Remove(dir) // it may have gone
		}
	}
}

// Hints has at most one hint waiting.
func (i *Watcher) Hints() <-chan struct{} { return i.hint }

// Close ends the watching and waits for its goroutine.
func (i *Watcher) Close() {
	i.w.Close()
	i.done.Wait()
}
