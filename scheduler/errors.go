package scheduler

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
	// ErrUnknownKey: nobody asked for the key and it is not in the world.
	ErrUnknownKey = errors.New("unknown key")
	// ErrNotPaused: nothing is paused under this name.
	ErrNotPaused = errors.New("not paused")
	// ErrBaseMoved: the plan was computed on a state that is no longer so.
	ErrBaseMoved = errors.New("the state moved since the plan was made")
	// ErrWatcherStopped: Stop was called on the watcher.
	ErrWatcherStopped = errors.New("watcher stopped")
	// ErrTooManyWatchers: 64 others are watching.
	ErrTooManyWatchers = errors.New("too many watchers: stop one of the 64 others")
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
	// Terminal: trying again is pointless until the value or the world changes.
	Terminal bool
	// After is when to try again, if the operation knows better than the backoff.
	After time.Duration
	// Owner holds what the operation wanted and is not ours to take.
	Owner string
	// On is a key that the operation waits for; see [Blocked].
	On Key
	// Gone: the object is not there; see [NotFound].
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

// class makes an OpError of an error. Who has none has not failed.
func class(e OpError) error {
	if e.Err == nil {
		return nil
	}
	return &e
}

// sayable is the error, or another in place of one that panics when it is asked
// what it says.
func sayable(err error) (out error) {
	defer onPanic(func(any) { out = fmt.Errorf("a %T that panics over what it says", err) })
	if err != nil {
		_ = err.Error()
	}
	return err
}

// Retry asks for another try after d. Like all that follow it is nil if err is.
func Retry(err error, d time.Duration) error { return class(OpError{Err: err, After: d}) }

// Terminal says that trying again is pointless until the value or the world changes.
func Terminal(err error) error { return class(OpError{Err: err, Terminal: true}) }

// Conflict says that a foreign object stands where ours should. It is retried
// with backoff: owners go away.
func Conflict(owner string, err error) error { return class(OpError{Err: err, Owner: owner}) }

// Blocked says that the operation cannot be done until something about another
// key changes: an object comes into place, goes, or is seen with another value.
// Then it is tried again, and in any case after Options.RetryMax. Where the
// value itself says what it needs, Needs is the better place.
func Blocked(on Key, err error) error { return class(OpError{Err: err, On: on}) }

// NotFound says that the object is not there. A deletion is done then; for an
// update somebody else has removed the object, and it is created.
func NotFound(err error) error { return class(OpError{Err: err, Gone: true}) }

// Lapsed says that what the operation needs went while it was under way, which the
// scheduler has not heard of yet: that a container is killed is no failure of anybody. It
// is tried again as after any other error, but does not count as one. Errors of packages
// that know no scheduler say the same by a method Lapsed() bool.
func Lapsed(err error) error {
	if err == nil {
		return nil
	}
	return lapsed{err}
}

type lapsed struct{ error }

func (lapsed) Lapsed() bool    { return true }
func (l lapsed) Unwrap() error { return l.error }

func isLapsed(err error) bool {
	var l interface{ Lapsed() bool }
	return errors.As(err, &l) && l.Lapsed()
}

// Unsupported says that this host cannot do it (a kernel without the link type).
func Unsupported(err error) error { return class(OpError{Err: err, Terminal: true}) }
