package scheduler

import (
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Invalid makes an InvalidError about one field; format says what is wrong and
// what would be right.
func Invalid(field, format string, args ...any) *InvalidError {
	return kv.Invalid(field, format, args...)
}

// Retry asks for another try after d. It is nil if err is, and so are
// Terminal, Conflict, Blocked, NotFound, Lapsed, Incomplete and Unsupported.
func Retry(err error, d time.Duration) error { return kv.Class(OpError{Err: err, After: d}) }

// Terminal says that trying again is pointless until the value or the actual state changes.
func Terminal(err error) error { return kv.Class(OpError{Err: err, Terminal: true}) }

// Conflict says that a foreign object stands where ours should. It is retried
// with backoff: owners go away.
func Conflict(owner string, err error) error { return kv.Class(OpError{Err: err, Owner: owner}) }

// Blocked says that the operation cannot be done until something about another
// key changes: an object comes into place, goes, or is seen with another value.
// Then it is tried again, and in any case after Options.RetryMax. Where the
// value itself says what it needs, Needs is the better place.
func Blocked(on Key, err error) error { return kv.Class(OpError{Err: err, On: on}) }

// NotFound says that the object is not there. A deletion is done then; for an
// update somebody else has removed the object, and it is created.
func NotFound(err error) error { return kv.Class(OpError{Err: err, Gone: true}) }

// Lapsed says that what the operation needs went while it was under way, which the
// scheduler has not heard of yet: that a container is killed is no failure of anybody. It
// is tried again, less and less often, as after any other error. But it uses up none of
// Retries.Attempts, and neither blame nor Status.Attempts counts it. Errors of packages
// that know no scheduler say the same by a method Lapsed() bool.
func Lapsed(err error) error {
	return kv.Lapsed(err)
}

// Incomplete marks the error of a creation or an update that applied the value except for the part that
// the error names. The key has failed, and err decides about retries; it may be Terminal. Derived values
// and values that need the key do not wait for the missing part.
func Incomplete(err error) error { return kv.Incomplete(err) }

// Unsupported says that this host cannot do it (a kernel without the link type).
func Unsupported(err error) error { return kv.Class(OpError{Err: err, Terminal: true}) }
