package file

import (
	"sync"

	"github.com/fsnotify/fsnotify"
)

// watcher hints that a directory may have changed.
type watcher interface {
	// add watches the directory; it is called again before every look, since
	// the directory may be another one under the same name.
	add(dir string) error
	// hints has at most one hint waiting.
	hints() <-chan struct{}
	close()
}

// inotify is the watcher of the kernel.
type inotify struct {
	w    *fsnotify.Watcher
	hint chan struct{}
	done sync.WaitGroup
}

func newInotify() (watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	i := &inotify{w: w, hint: make(chan struct{}, 1)}
	i.done.Go(i.run)
	return i, nil
}

// run turns events and errors, lost events among them, into hints.
func (i *inotify) run() {
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

func (i *inotify) add(dir string) error   { return i.w.Add(dir) }
func (i *inotify) hints() <-chan struct{} { return i.hint }

func (i *inotify) close() {
	i.w.Close()
	i.done.Wait()
}
