package scheduler

import "time"

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
