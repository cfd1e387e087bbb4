package history

import (
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Moment is how a key stood at some time.
type Moment struct {
	State kv.State
	// Desired and Actual are values of the kind's type; nil means none.
	Desired, Actual any
	// Origin is the source whose word counted; "derived" for what another
	// value brought with it.
	Origin string
}

// KeyChange is what changed of a key. What did not change is zero in both
// moments.
type KeyChange struct {
	Key           kv.Key
	Before, After Moment
	// Seq is the transaction that changed it last, Time when that was.
	Seq  uint64
	Time time.Time
}

// encodedBytes is the size of the values of an earlier run.
func (c *KeyChange) encodedBytes() (n int) {
	for _, v := range []any{c.Before.Desired, c.Before.Actual, c.After.Desired, c.After.Actual} {
		if b, ok := v.(Encoded); ok {
			n += len(b)
		}
	}
	return n
}

// Error refuses a question about a time before the history that is kept.
type Error struct {
	// Earliest is the first time that can be asked for.
	Earliest time.Time
}

// Error names the first time that can be asked for.
func (e *Error) Error() string {
	return "the history that is kept begins at " + e.Earliest.UTC().Format(time.RFC3339Nano) + "; ask for a time from then on"
}

// Encoded is a value as its kind encodes it; see scheduler.Descriptor.
type Encoded []byte
