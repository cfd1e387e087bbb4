package models

import (
	"errors"
	"time"
)

// Stored is one key of the store below /plumb/<label>/, named without that
// prefix: "config/interface/web".
type Stored struct {
	Key   string
	Value []byte
	// Revision is the store's revision that last changed the key.
	Revision int64
}

// StoreCheck is what comparing all that was read of the store with the store has found.
type StoreCheck struct {
	// Revision of the store at which both were compared.
	Revision int64
	Keys     int
	// Differ are the keys that did, sorted.
	Differ []string
	Time   time.Time
}

// StoreChecks counts such comparisons.
type StoreChecks struct {
	// Done counts them, Differed the keys that differed in all of them.
	Done, Differed int
	Last           StoreCheck
}

// Write is one change of a store transaction.
type Write struct {
	Key string
	// Value is what to write; nil deletes.
	Value []byte
	// If, when not nil, is the revision that the key must have (0: absent)
	// or the whole transaction fails with ErrStoreConflict.
	If *int64
}

// Override has a value of the store count as another one, for as long as the store holds
// the former.
type Override struct {
	Key string
	// Stored is what the store holds, Value what counts instead; nil stands for no value.
	Stored, Value []byte
}

// Errors of stores.
var (
	// ErrStoreConflict: a Write.If did not hold; nothing was written.
	ErrStoreConflict = errors.New("the store changed meanwhile")
	// ErrStoreTooMuch: the store does not take so much in one transaction; nothing was written.
	ErrStoreTooMuch = errors.New("write fewer at once")
	// ErrStoreDown: the store cannot be reached.
	ErrStoreDown = errors.New("the store cannot be reached")
)

// Health is how one part of the agent stands, for status and readiness.
type Health struct {
	// Name of the part: "etcd", "docker", "scheduler".
	Name string
	// State is ok, degraded, down, off or starting. Only ok and off are ready.
	State string
	// Reason says why it is not ok, or gives a detail worth knowing.
	Reason string
	Since  time.Time
	// Details are further facts: versions, counts, ages.
	Details map[string]string
	// Optional: the agent is ready without this part.
	Optional bool
}
