// Package reload keeps what files say, and follows them when they change.
//
// The files are read again when somebody asks, at most once in a while, and compared by
// their content: no watch can be lost, and it does not matter whether a file was written
// in place, renamed or reached by another symbolic link. A file that has become unreadable
// or damaged changes nothing but Err: what it said before stays in use.
package reload

import (
	"bytes"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Often is how often files are read again at most, unless Options say otherwise.
const Often = time.Second

// Options say how files are read.
type Options struct {
	// What the files hold, for the log: "the tokens".
	What string
	// Read reads one file, and refuses one that must not be used.
	Read func(path string) ([]byte, error)
	// Every is how often the files are read at most. Default Often.
	Every time.Duration
	// Log hears of each change and of what is wrong. Default: nothing is logged.
	Log *slog.Logger
}

// Value is what files say.
type Value[T any] struct {
	o     Options
	parse func(contents [][]byte) (T, error)
	files []string

	mu    sync.Mutex // guards what follows
	next  time.Time
	texts [][]byte
	value T
	err   error
}

// New reads the files. parse makes a value of their contents, which come in the order of
// the files; its errors name the file.
func New[T any](o Options, parse func(contents [][]byte) (T, error), files ...string) (*Value[T], error) {
	if o.Every == 0 {
		o.Every = Often
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	v := &Value[T]{o: o, parse: parse, files: files}
	var err error
	if v.texts, err = v.read(); err != nil {
		return nil, err
	}
	if v.value, err = parse(v.texts); err != nil {
		return nil, err
	}
	v.next = time.Now().Add(o.Every)
	return v, nil
}

// Get is what the files say, or said when they could last be used.
func (v *Value[T]) Get() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresh()
	return v.value
}

// Err is why the files as they are now cannot be used, nil if they can.
func (v *Value[T]) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresh()
	return v.err
}

func (v *Value[T]) read() (texts [][]byte, err error) {
	for _, f := range v.files {
		text, err := v.o.Read(f)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// refresh reads the files if that is due. mu is held.
func (v *Value[T]) refresh() {
	now := time.Now()
	if now.Before(v.next) {
		return
	}
	v.next = now.Add(v.o.Every)
	texts, err := v.read()
	if err == nil && slices.EqualFunc(texts, v.texts, bytes.Equal) {
		v.note(nil)
		return
	}
	var value T
	if err == nil {
		value, err = v.parse(texts)
	}
	if v.note(err); err != nil {
		return
	}
	v.value, v.texts = value, texts
	v.o.Log.Info(v.o.What+" have changed, and are in use", "files", v.files)
}

// note keeps what is wrong, and says it once.
func (v *Value[T]) note(err error) {
	if err != nil && (v.err == nil || v.err.Error() != err.Error()) {
		v.o.Log.Warn(v.o.What+" have changed and cannot be used; what they were stays in use", "error", err)
	}
	v.err = err
}
