package scheduler

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

// Set wants the value at the key. Its type must be that of the key's kind;
// [Kind.Set] checks that at compile time.
func Set(k Key, v any) Change { return Change{Key: k, Value: v} }

// Withdraw takes back what the source wanted of the key.
func Withdraw(k Key) Change { return Change{Key: k} }

// SetInvalid says that the source holds something for the key that is no value.
func SetInvalid(k Key, err error) Change { return Change{Key: k, Invalid: err} }

// Txn is one transaction: a group of changes that is edited and recorded as one.
// Keys of a transaction do not wait for each other unless they need each other.
type Txn struct {
	// Source says whose word this is: one of Options.Sources. A transaction
	// that only looks may leave it empty or name who noticed ("kernel").
	Source string
	// Note describes the transaction in history: "put route/r1".
	Note string

	// Want changes what the source wants.
	Want []Change
	// Complete: Want is all that the source wants; what it wanted before and
	// is not named is withdrawn. The first complete word of every source
	// opens the way for deletions.
	Complete bool

	// Look re-reads keys and all that stands on them. A key that ends in "/"
	// stands for all below it. The transaction is settled when all is that moved
	// because of what was found.
	Look []Key
	// LookAll re-reads the world.
	LookAll bool

	// Base, if set, is Plan.Base of a preview of this transaction: the plan is
	// executed. It is refused with ErrBaseMoved if what it was made on is no
	// longer so. Else its steps are taken as they stand there: they run at the
	// same time where the plan allows it, and their outcomes count in its order.
	// If something comes in between, the rest is done as without a plan, and
	// Result.Deviation says so.
	Base Base

	// Retry says how failures of what is wanted here are tried again, derived
	// values included, until the key is wanted anew; nil means as in Options.
	Retry *Retries

	// hint: nobody asked for the Look; something was heard, or it was time.
	hint bool

	// Revert takes the changes back if one of the touched keys fails or is invalid.
	Revert bool
}

// Retries is how failures are tried again. What is zero is as in [Options].
type Retries struct {
	// Attempts is how many tries there are in all; when they are used up, the
	// key has failed, until something changes or a Look is asked for. Zero:
	// there is no end.
	Attempts int
	// Min and Max bound the backoff between attempts, which doubles; Jitter is
	// the share of a delay that is random.
	Min, Max time.Duration
	Jitter   float64
}

// Result says what became of a transaction.
type Result struct {
	// Seq numbers the transaction in the history.
	Seq uint64
	// Keys are the touched keys as they settled, sorted. Get says more of one.
	Keys []Outcome
	// Reverted is set when Txn.Revert was asked and happened, Failed then are the
	// touched keys that failed or were invalid before.
	Reverted bool
	Failed   []Outcome
	// Deviation says where the plan that Txn.Base named was left, nil if it was
	// executed as it stood or there was none.
	Deviation *Deviation
}

// Outcome is how a key settled.
type Outcome struct {
	Key   Key
	State State
	// Reason says in a few words why the key is not configured.
	Reason string
}

// String is the outcome as people read it: "route/r1 pending: needs interface/web".
func (o Outcome) String() string {
	if o.Reason == "" {
		return fmt.Sprintf("%s %s", o.Key, o.State)
	}
	return fmt.Sprintf("%s %s: %s", o.Key, o.State, o.Reason)
}

// failed reports whether the key, or what it derives, could not be as wanted;
// one that waits for something has not failed.
func (o Outcome) failed() bool {
	return o.State == Failed || o.State == Retrying || o.State == InvalidState
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

// OK reports whether every touched key is as wanted: configured, observed or gone.
// A key that is pending is not, though nothing failed.
func (r Result) OK() bool {
	for _, s := range r.Keys {
		if s.State != Configured && s.State != Removed && s.State != Observed {
			return false
		}
	}
	return !r.Reverted
}

// Record tells what a transaction asked and what was done because of it.
type Record struct {
	Seq    uint64
	Time   time.Time
	Source string
	Note   string
	// Asked are the keys named by the transaction (Want and Look), capped;
	// AskedTotal is the full number.
	Asked      []Key
	AskedTotal int
	// Planned are the steps that were due at once when the transaction was
	// edited, capped; what these made due follows in Done.
	Planned []PlannedStep
	// Done are the operations that ran because of the transaction, in the
	// order of their outcomes; more may come while it is not settled.
	Done []DoneStep
	// Settled is when the last of them ended.
	Settled time.Time
	// Dropped counts steps that did not fit into the record.
	Dropped int
	// Deviation is that of the Result.
	Deviation *Deviation
	// Changed is what changed of each key. It is told of a record that is asked
	// for by its number, of earlier runs, and to a Follower.
	Changed []KeyChange
	// Earlier: of an earlier run, see Options.Earlier.
	Earlier bool
	// Missed counts changes before this record that nobody could keep.
	Missed int

	version uint64
}

// PlannedStep is a step of a plan as the history keeps it.
type PlannedStep struct {
	Op  Operation
	Key Key
}

// DoneStep is an operation that ran.
type DoneStep struct {
	Op    Operation
	Key   Key
	Via   Key // the key whose change made this step due; empty when it was asked
	Start time.Time
	Took  time.Duration
	Error string
	// Lapsed: it could not be done because what it needs went meanwhile, which is no
	// failure.
	Lapsed bool
}

// Operation is what a step does to the world.
type Operation uint8

// The operations. The zero Operation is none; a [Deed] has it that only asked.
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
	// OpLook reads the world and changes nothing: the object was found so.
	OpLook
)

// String is the operation in a word: "create".
func (o Operation) String() string {
	return [...]string{"none", "create", "update", "replace", "delete", "look"}[o]
}
