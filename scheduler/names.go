package scheduler

import (
	"github.com/plumb-net/plumb/scheduler/explain"
	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/kv"
	"github.com/plumb-net/plumb/scheduler/plan"
)

// The types that all packages of the scheduler share are those of package kv, which says
// more of each.
type (
	// Key names a thing: "route/default-web".
	Key = kv.Key
	// Need is something that must be in place before a value can be: one key, or
	// any key under a prefix. Make one with [On], [AnyOf] or [Together] and
	// sharpen it with [If] and [Project]. It is judged on what is there, not on
	// what is asked.
	Need = kv.Need
	// Claim is a name that only one value may have at a time.
	Claim = kv.Claim
	// Change is what a source says of one key.
	Change = kv.Change
	// Retries is how failures are tried again.
	Retries = kv.Retries
	// Operation is what a step does to an object.
	Operation = kv.Operation
	// Verdict is how to get from one value to another. The zero value is Same.
	Verdict = kv.Verdict
	// ChangeClass is the kind of a [Verdict].
	ChangeClass = kv.ChangeClass
	// Disruption classes what a step does to traffic.
	Disruption = kv.Disruption
	// Deviation is where the execution of a plan left it, and why.
	Deviation = kv.Deviation
	// State is how things stand with a key.
	State = kv.State
	// Status is all that is known of a key.
	Status = kv.Status
	// Missing is a need that is not satisfied.
	Missing = kv.Missing
	// Policy says how keys are to be treated, whoever wants them.
	Policy = kv.Policy
	// Disruptions bounds how many keys of a kind may begin to go within a minute.
	Disruptions = kv.Disruptions
	// Deletions bounds what may be removed at once for being unwanted.
	Deletions = kv.Deletions
	// DriftPolicy is what is done about what others change.
	DriftPolicy = kv.DriftPolicy
	// Grade is what sort of drift it is that the actual state differs from the intent.
	Grade = kv.Grade
	// InvalidError refuses a value: it can never be applied as it stands.
	InvalidError = kv.InvalidError
	// FieldError is what is wrong with one field of a value.
	FieldError = kv.FieldError
	// OpError classes the error of an operation; plain errors are retried with backoff.
	OpError = kv.OpError
)

// What the history tells is in package history.
type (
	// Record tells what a transaction asked and what was done because of it.
	Record = history.Record
	// PlannedStep is a step of a plan as the history keeps it.
	PlannedStep = history.PlannedStep
	// DoneStep is an operation that ran.
	DoneStep = history.DoneStep
	// HistoryQuery selects records; the zero value selects all.
	HistoryQuery = history.Query
	// HistoryError refuses a question about a time before the history that is kept.
	HistoryError = history.Error
	// Moment is how a key stood at some time.
	Moment = history.Moment
	// KeyChange is what changed of a key.
	KeyChange = history.KeyChange
	// Encoded is a value as its kind encodes it; see Descriptor.Encode.
	Encoded = history.Encoded
	// Blame tells who is behind a key.
	Blame = history.Blame
	// Deed is one thing that was done to a key, and on whose account.
	Deed = history.Deed
)

// What would be done, and why things stand as they do, is told by packages plan and explain.
type (
	// Plan is what would be done, and what would come of it.
	Plan = plan.Plan
	// Step is one operation of a plan.
	Step = plan.Step
	// Effect is how a key would stand at the end, and stands now.
	Effect = plan.Effect
	// Base says what a plan was made on; see [Txn.Base].
	Base = plan.Base
	// SavedBase is a Base that outlives the process.
	SavedBase = plan.SavedBase
	// Read is a key that a planner read, with a digest of how it stood.
	Read = plan.Read
	// Cause is one link of the chain from a key to what blocks it at the root.
	Cause = explain.Cause
	// Root is where the chain of a [Cause] ends: what nothing below it explains.
	Root = explain.Root
	// RootKind says what holds everything up at a root.
	RootKind = explain.RootKind
)

// The kinds of roots.
const (
	RootBusy     = explain.RootBusy     // something is being done or is about to be; it ends by itself
	RootNotAsked = explain.RootNotAsked // it is needed, and nobody asks for it
	RootNotThere = explain.RootNotThere // it is needed, and it does not exist
	RootNoneOf   = explain.RootNoneOf   // some key below a prefix is needed, and none will do
	RootUnfit    = explain.RootUnfit    // it is there, but not as By needs it
	RootInvalid  = explain.RootInvalid  // its value is refused, or does not agree with that of By
	RootTaken    = explain.RootTaken    // By has what only one can have
	RootFailed   = explain.RootFailed   // what was tried last failed
	RootPaused   = explain.RootPaused   // By is held, and with it the key
	RootUnread   = explain.RootUnread   // its actual state cannot be told
	RootNoKind   = explain.RootNoKind   // nothing is registered that could make it
	RootDrifted  = explain.RootDrifted  // somebody else changed it, and it is not repaired
	RootKept     = explain.RootKept     // nobody wants it, and it goes when all that could is known
	RootCircle   = explain.RootCircle   // it needs itself, by way of others
)

// The states of a key.
const (
	Absent        = kv.Absent        // not asked for and not there
	Configured    = kv.Configured    // desired and actual agree; it was seen or made so
	Pending       = kv.Pending       // needs are missing; Status.Missing names them
	InvalidState  = kv.InvalidState  // the value is refused, by its kind or by an operation
	Failed        = kv.Failed        // the last attempt failed and none is due
	Retrying      = kv.Retrying      // the last attempt failed; Status.NextTry says when the next is
	Unknown       = kv.Unknown       // what is there cannot be told
	Drifted       = kv.Drifted       // somebody else changed it
	Unimplemented = kv.Unimplemented // there is no descriptor for it
	Observed      = kv.Observed      // it is there, not made by us
	Leftover      = kv.Leftover      // bears our mark, nobody wants it; on its way out or held back
	Removed       = kv.Removed       // just deleted
	Paused        = kv.Paused        // held by an operator
)

// The operations. The zero Operation is none.
const (
	OpCreate  = kv.OpCreate  // makes the object, or takes over what others made
	OpUpdate  = kv.OpUpdate  // changes it in place, or gives back what was taken over
	OpReplace = kv.OpReplace // kept for a deletion and a creation in one; nothing has it
	OpDelete  = kv.OpDelete  // removes the object
	OpLook    = kv.OpLook    // reads the object and changes nothing

	OpGiveBack = kv.OpGiveBack // in records: the deletion of an object that was taken over and stays
)

// The verdicts.
const (
	Same         = kv.Same         // nothing is to be done
	InPlace      = kv.InPlace      // Update gets there
	Replace      = kv.Replace      // Delete, then Create; what depends on the object leaves before, and comes back
	InPlaceAlone = kv.InPlaceAlone // Update gets there, when nothing depends on the object
)

// The disruption classes, from harmless to worst.
const (
	NoDisruption = kv.NoDisruption // traffic notices nothing
	Brief        = kv.Brief        // it is interrupted for a moment
	Disruptive   = kv.Disruptive   // it is interrupted until something else is done, or for good
	Cascading    = kv.Cascading    // other things that are wanted have to go because of the step
)

// The drift policies.
const (
	DriftDefault = kv.DriftDefault // DriftRepair, unless a policy for more keys says otherwise
	DriftRepair  = kv.DriftRepair  // makes it as wanted again
	DriftAlert   = kv.DriftAlert   // leaves it, and says that it is drifted
	DriftIgnore  = kv.DriftIgnore  // leaves it; what was changed counts as configured
)

// The grades of drift.
const (
	NoDrift      = kv.NoDrift      // as wanted, or not built yet, or it cannot be told
	GradeRepair  = kv.GradeRepair  // it is made as wanted again, or removed
	GradeAlert   = kv.GradeAlert   // it is left by policy or by a pause, and told
	GradeIgnore  = kv.GradeIgnore  // it is left by policy, and nobody minds
	GradeForeign = kv.GradeForeign // what somebody else made is in the way, or in what is ours
)

// Errors that Apply, Submit, Register and others return.
var (
	// ErrStopped: the scheduler no longer runs.
	ErrStopped = kv.ErrStopped
	// ErrUnknownSource: the transaction's source is not in Options.Sources.
	ErrUnknownSource = kv.ErrUnknownSource
	// ErrUnknownKey: nobody asked for the key and it is not there.
	ErrUnknownKey = kv.ErrUnknownKey
	// ErrNotPaused: nothing is paused under this name.
	ErrNotPaused = kv.ErrNotPaused
	// ErrNotHeldBack: nothing is held back under this ID.
	ErrNotHeldBack = kv.ErrNotHeldBack
	// ErrTooLarge: a preview names or changes too much.
	ErrTooLarge = kv.ErrTooLarge
	// ErrBusy: the loop had no pause long enough for a preview.
	ErrBusy = kv.ErrBusy
	// ErrBaseMoved: the plan was computed on a state that is no longer so.
	ErrBaseMoved = kv.ErrBaseMoved
	// ErrWatcherStopped: Stop was called on the watcher.
	ErrWatcherStopped = kv.ErrWatcherStopped
)
