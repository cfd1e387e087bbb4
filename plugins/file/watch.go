package file

import "github.com/plumb-net/plumb/plugins/inotify"

// watcher hints that a directory may have changed.
type watcher interface {
	// Add watches the directory; it is called again before every look, since
	// the directory may be another one under the same name.
	Add(dir string) error
	// Hints has at most one hint waiting.
	Hints() <-chan struct{}
	Close()
}

func newInotify() (watcher, error) { return inotify.New() }
