package kv

import (
	"fmt"
	"time"
)

// Change is what a source says of one key.
type Change struct {
	Key Key
	// Value is what should be; nil withdraws.
	Value any
	// Invalid is set instead of Value when the source has a value that it
	// cannot even decode. The key becomes invalid with this error.
	Invalid error
}

// Retries is how failures are tried again. What is zero is as in Options.
type Retries struct {
	// Attempts is how many tries there are in all, but for those that lapsed; when
	// they are used up, the key has failed, until something changes or a Look is
	// asked for. Zero: there is no end.
	Attempts int
	// Min and Max bound the backoff between attempts, which doubles; Jitter is
	// the share of a delay that is random.
	Min, Max time.Duration
	Jitter   float64
}

// Deviation is where the execution of a plan left it, and why.
type Deviation struct {
	// Step is the number of the first step that did not go as planned, one
	// more than there are if all did and something more was done.
	Step int
	Why  string
}

// String is the deviation as people read it: "left at step 2: " and why.
func (d Deviation) String() string { return fmt.Sprintf("left at step %d: %s", d.Step, d.Why) }

// Operation is what a step does to an object.
type Operation uint8

// The operations. The zero Operation is none; a Deed has it that only asked.
const (
	// OpCreate makes the object, or takes over what others made.
	OpCreate Operation = iota + 1
	// OpUpdate changes the object in place, or gives back what was taken over.
	OpUpdate
	// OpReplace is kept for a deletion and a creation in one. Today those are two
	// steps, so nothing has it.
	OpReplace
	// OpDelete removes the object.
	OpDelete
	// OpLook reads the object and changes nothing: it was found so.
	OpLook
	// OpGiveBack is the deletion of an object that was taken over and stays in place. It occurs only in
	// records.
	OpGiveBack
)

// String is the operation in a word: "create".
func (o Operation) String() string {
	return [...]string{"none", "create", "update", "replace", "delete", "look", "give back"}[o]
}

// Sign is the operation in a character: "+".
func (o Operation) Sign() string { return [...]string{".", "+", "~", "±", "-", "?", "<"}[o] }
