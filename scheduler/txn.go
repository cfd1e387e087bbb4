package scheduler

import (
	"fmt"
	"time"
)

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
	// Written is when the source's users wrote it, if that is known: history tells it, and
	// how long it took to come.
	Written time.Time

	// Want changes what the source wants.
	Want []Change
	// Complete: Want is all that the source wants; what it wanted before and
	// is not named is withdrawn. The first complete snapshot of every source
	// opens the way for deletions.
	Complete bool

	// ByOwner says that the owner of the keys takes back those that Want withdraws by name, since
	// what they served has ended: a container was detached. So nothing uses them any more, and
	// neither [Deletions], [Disruptions] nor a pause holds them back, nor what depends on them,
	// until they are wanted again. It is not for what people delete, nor for what a source
	// concludes from what it does not find. What Complete withdraws unnamed is held back as ever.
	ByOwner bool

	// Look re-reads keys and all that depends on them. A key that ends in "/"
	// stands for all below it. The transaction is settled when all is that moved
	// because of what was found.
	Look []Key
	// LookAll re-reads all kinds.
	LookAll bool

	// Base, if set, is Plan.Base of a preview of this transaction: the plan is
	// executed. It is refused with ErrBaseMoved if what it was made on is no
	// longer so. Else its steps are taken as they stand there: they run at the
	// same time where the plan allows it, and their outcomes count in its order.
	// If something comes in between, the rest is done as without a plan, and
	// Result.Deviation says so.
	Base Base

	// AsPreviewed: the transaction is executed in the steps of its own preview, as one with a Base
	// is, so that what [Scheduler.Preview] updates in place is not deleted and made again because
	// operations end in another order. The preview is made when the transaction is submitted.
	// Nobody has seen it, so Deletions and Disruptions hold back as ever, and no operation waits
	// long for another that it does not need. The transaction is executed without the preview if
	// that is large, if more would go than may at once, or while another plan is executed.
	AsPreviewed bool

	// Retry says how failures of what is wanted here are tried again, derived
	// values included, until the key is wanted anew; nil means as in Options.
	Retry *Retries

	// hint: nobody asked for the Look; something was heard, or it was time.
	hint bool

	// Revert takes the changes back if one of the touched keys fails or is invalid.
	Revert bool
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
	// Deviation says where the plan of Txn.Base or Txn.AsPreviewed was left, nil if it
	// was executed as it stood or there was none.
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
