package kv

import "time"

// State is how things stand with a key.
type State uint8

// The states of a key.
const (
	// Absent: not asked for and not there.
	Absent State = iota
	// Configured: desired and actual agree; it was seen or made so.
	Configured
	// Pending: needs are missing; Status.Missing names them.
	Pending
	// InvalidState: the value is refused, by its kind before anything is touched, or by an
	// operation.
	InvalidState
	// Failed: the last attempt failed and none is due.
	Failed
	// Retrying: the last attempt failed; Status.NextTry says when the next is.
	Retrying
	// Unknown: what is there cannot be told.
	Unknown
	// Drifted: somebody else changed it.
	Drifted
	// Unimplemented: there is no descriptor for it.
	Unimplemented
	// Observed: it is there, not made by us.
	Observed
	// Leftover: bears our mark, nobody wants it; on its way out or held back.
	Leftover
	// Removed: just deleted.
	Removed
	// Paused: held by an operator.
	Paused
)

// String is the state in a word, as all that shows states says it: "configured".
// That of InvalidState is "invalid".
func (s State) String() string {
	return [...]string{"absent", "configured", "pending", "invalid", "failed", "retrying", "unknown",
		"drifted", "unimplemented", "observed", "leftover", "removed", "paused"}[s]
}

// Missing is a need that is not satisfied.
type Missing struct {
	// Need names the key, or the prefix with a star.
	Need string
	// Why says what for, and how the needed thing stands.
	Why string
}

// Status is all that is known of a key.
type Status struct {
	Key   Key
	Kind  string
	State State
	// Reason says in a sentence why the key is not configured.
	Reason  string
	Missing []Missing
	Fields  []FieldError
	// Origin is the source whose word counts; empty for what nobody wants.
	Origin string
	// Shadowed are weaker sources that want the key too.
	Shadowed []string
	// Drift is what is done when somebody else changes the key, which must be
	// wanted. What is not repaired is outside of what the scheduler promises.
	Drift DriftPolicy
	// Grade is what sort of drift a fresh read found, and Owner who made what
	// it found, as far as that can be told and was not us. Only Inspect sets them.
	Grade Grade
	Owner string
	// Base is the key that this value is derived from, if it is.
	Base Key
	// Desired and Actual are values of the kind's type; nil means none.
	Desired, Actual any
	Meta            any
	Derived         []Status
	// Busy: something that follows by itself is still to come, at this key or at what
	// it waits for; see Handle.Wait, which ends when it has. A next try does not count.
	Busy bool
	// Revision grows with every change of a status, over all keys: of two statuses of a key
	// the greater one is the later, also if the key was gone in between.
	Revision uint64
	// Since is when the state began.
	Since time.Time
	// Attempts failed in a row; those that lapsed do not count.
	Attempts int
	NextTry  time.Time
	// Cause is the transaction that last moved the key, Via the key through which.
	Cause uint64
	Via   Key
}
