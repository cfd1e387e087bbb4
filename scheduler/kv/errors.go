package kv

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that Apply, Submit, Register and others return.
var (
	// ErrStopped: the scheduler no longer runs.
	ErrStopped = errors.New("scheduler stopped")
	// ErrUnknownSource: the transaction's source is not in Options.Sources.
	ErrUnknownSource = errors.New("unknown source")
	// ErrUnknownKey: nobody asked for the key and it is not there.
	ErrUnknownKey = errors.New("unknown key")
	// ErrNotPaused: nothing is paused under this name.
	ErrNotPaused = errors.New("not paused")
	// ErrNotHeldBack: nothing is held back under this ID.
	ErrNotHeldBack = errors.New("nothing is held back")
	// ErrTooLarge: a preview names or changes too much.
	ErrTooLarge = errors.New("the preview is too large")
	// ErrBusy: the loop had no pause long enough for a preview.
	ErrBusy = errors.New("the agent is too busy")
	// ErrBaseMoved: the plan was computed on a state that is no longer so.
	ErrBaseMoved = errors.New("the state moved since the plan was made")
	// ErrWatcherStopped: Stop was called on the watcher.
	ErrWatcherStopped = errors.New("watcher stopped")
)

// FieldError is what is wrong with one field of a value.
type FieldError struct {
	Field string
	Error string
}

// InvalidError refuses a value: it can never be applied as it stands. The key
// becomes invalid, no retry is made, and nothing else is harmed.
type InvalidError struct {
	Fields []FieldError
}

// Invalid makes an InvalidError about one field; format says what is wrong and
// what would be right.
func Invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Fields: []FieldError{{Field: field, Error: fmt.Sprintf(format, args...)}}}
}

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Error
		if f.Field != "" {
			parts[i] = f.Field + ": " + f.Error
		}
	}
	return strings.Join(parts, "; ")
}

// OpError classes the error of an operation; plain errors are retried with backoff.
type OpError struct {
	Err error
	// Terminal: trying again is pointless until the value or the actual state changes.
	Terminal bool
	// After is when to try again, if the operation knows better than the backoff.
	After time.Duration
	// Owner holds what the operation wanted and is not ours to take.
	Owner string
	// On is a key that the operation waits for; see scheduler.Blocked.
	On Key
	// Gone: the object is not there; see scheduler.NotFound.
	Gone bool
}

func (e *OpError) Error() string {
	switch {
	case e.Owner != "":
		return fmt.Sprintf("%v (owner: %s)", e.Err, e.Owner)
	case e.On != "":
		return fmt.Sprintf("%v (waits for %s)", e.Err, e.On)
	}
	return fmt.Sprint(e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }

// Class makes an OpError of an error. Who has none has not failed.
func Class(e OpError) error {
	if e.Err == nil {
		return nil
	}
	return &e
}

// Gone reports whether an error says that the object is not there.
func Gone(err error) bool {
	var oe *OpError
	return errors.As(err, &oe) && oe.Gone
}

// Lapsed says that what an operation needs went while it was under way; nil if err is.
func Lapsed(err error) error {
	if err == nil {
		return nil
	}
	return lapsed{err}
}

type lapsed struct{ error }

func (lapsed) Lapsed() bool    { return true }
func (l lapsed) Unwrap() error { return l.error }

// IsLapsed reports whether an error, of this package or of one that knows no scheduler,
// says so by a method Lapsed() bool.
func IsLapsed(err error) bool {
	var l interface{ Lapsed() bool }
	return errors.As(err, &l) && l.Lapsed()
}

// Incomplete marks the error of an operation that did all except the part that the error names; nil if err
// is nil.
func Incomplete(err error) error {
	if err == nil {
		return nil
	}
	return incomplete{err}
}

type incomplete struct{ error }

func (i incomplete) Unwrap() error { return i.error }

// IsIncomplete reports whether an error is marked by [Incomplete].
func IsIncomplete(err error) bool {
	var i incomplete
	return errors.As(err, &i)
}

// Sayable is the error, or another in place of one that panics when it is asked
// what it says.
func Sayable(err error) (out error) {
	defer OnPanic(func(any) { out = fmt.Errorf("a %T that panics over what it says", err) })
	if err != nil {
		_ = err.Error()
	}
	return err
}

// FirstLine is what an error says, but for a stack that follows.
func FirstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// OnPanic, deferred, calls f with what the function panicked with, if it did.
func OnPanic(f func(p any)) {
	if p := recover(); p != nil {
		f(p)
	}
}
