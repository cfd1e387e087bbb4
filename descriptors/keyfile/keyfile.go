// Package keyfile has the kind of files of the host that hold a key. Interfaces whose value names such
// a file need it: they wait for a file that comes later, and a file that changes is read anew.
package keyfile

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Deps are what the kind works with.
type Deps struct {
	// Check returns nil if the file holds a key, an error that is fs.ErrNotExist if there is no such
	// file, or why it cannot be used. The error does not show what is in the file.
	Check func(file string) error
	// Follow reports files once when files returns them, and when they may have changed, until ctx
	// ends. more receives a value when files returns others.
	Follow func(ctx context.Context, files func() []string, more <-chan struct{}, changed func(file string)) error
	// InUse reports whether an object in place was made with the file. If the file is deleted, the
	// object stays.
	InUse func(file string) bool
	// Changed hears of each file that may have changed since it was named.
	Changed func(file string)
}

// New makes the kind. A key is there if its file holds a key, or did when an object that exists was
// made with it. Otherwise it is unknown and never absent: an object whose new value names a file that
// is to come would be deleted.
func New(deps Deps) scheduler.Descriptor[struct{}, struct{}] {
	d := &keyfile{Deps: deps, needed: map[string]bool{}, more: make(chan struct{}, 1)}
	k := scheduler.Condition(models.KindKeyFile, scheduler.Key(models.KeyFileKey("/")), d.holds, d.watch)
	interest := k.Interest
	k.Interest = func(k scheduler.Key, needed bool) {
		interest(k, needed)
		d.interest(k, needed)
	}
	return k
}

type keyfile struct {
	Deps
	mu     sync.Mutex
	needed map[string]bool // under mu: files that some value names, and whether Follow has reported them
	more   chan struct{}
}

func (d *keyfile) holds(_ context.Context, k scheduler.Key) (bool, error) {
	err := d.Check(models.KeyFilePath(string(k)))
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return err == nil, err
	case d.InUse(models.KeyFilePath(string(k))):
		return true, nil
	}
	return false, scheduler.Terminal(err) // Follow reports it when it comes
}

func (d *keyfile) interest(k scheduler.Key, needed bool) {
	d.mu.Lock()
	if needed {
		d.needed[models.KeyFilePath(string(k))] = false
	} else {
		delete(d.needed, models.KeyFilePath(string(k)))
	}
	d.mu.Unlock()
	select {
	case d.more <- struct{}{}:
	default:
	}
}

func (d *keyfile) files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := make([]string, 0, len(d.needed))
	for f := range d.needed {
		files = append(files, f)
	}
	return files
}

func (d *keyfile) watch(ctx context.Context, notify func(keys ...scheduler.Key)) error {
	return d.Follow(ctx, d.files, d.more, func(file string) {
		notify(scheduler.Key(models.KeyFileKey(file)))
		if d.reported(file) {
			d.Changed(file)
		}
	})
}

// reported notes that Follow has reported a file, and reports whether it did so before: the first
// report comes when the file is named.
func (d *keyfile) reported(file string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, needed := d.needed[file]
	if needed {
		d.needed[file] = true
	}
	return before
}
