package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Record tells what a transaction asked and what was done because of it.
type Record struct {
	Seq    uint64
	Time   time.Time
	Source string
	Note   string
	// Written is when its source wrote it, as far as that is known.
	Written time.Time
	// Complete: it was a snapshot of all that its source wants.
	Complete bool
	// Asked are the keys named by the transaction (Want and Look), capped;
	// AskedTotal is the full number.
	Asked      []kv.Key
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
	Deviation *kv.Deviation
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
	Op  kv.Operation
	Key kv.Key
}

// DoneStep is an operation that ran.
type DoneStep struct {
	Op    kv.Operation
	Key   kv.Key
	Via   kv.Key // the key whose change made this step due; empty when it was asked
	Start time.Time
	// Waited is for how long only a worker was missing, before Start.
	Waited time.Duration
	Took   time.Duration
	Error  string
	// Lapsed: it could not be done because what it needs went meanwhile, which is no
	// failure.
	Lapsed bool
}

// maxNote bounds what NoteBy makes of a note: one event may tell of many.
const maxNote = 256

// NoteBy adds to the note who changed what was found to be changed; false if it is there.
func (r *Record) NoteBy(by string) bool {
	by = "by " + by
	if len(r.Note)+len(by) > maxNote || strings.Contains(r.Note+",", by+",") {
		return false
	}
	r.Note = strings.TrimPrefix(r.Note+", "+by, ", ")
	return true
}

func (r *Record) clone() Record {
	c := *r
	c.Asked, c.Planned, c.Done = slices.Clone(r.Asked), slices.Clone(r.Planned), slices.Clone(r.Done)
	return c
}

func (r *Record) touches(k kv.Key) bool {
	return slices.Contains(r.Asked, k) || slices.ContainsFunc(r.Done, func(s DoneStep) bool { return s.Key == k })
}

// String tells the record as text, the way logs, the command line and tests show it.
func (r Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "txn %d %s", r.Seq, r.Source)
	if r.Note != "" {
		fmt.Fprintf(&b, " %q", r.Note)
	}
	b.WriteByte('\n')
	for _, d := range r.Done {
		b.WriteString("  " + d.String() + "\n")
	}
	if r.Deviation != nil {
		fmt.Fprintf(&b, "  the plan was %s\n", r.Deviation)
	}
	if r.Dropped > 0 {
		fmt.Fprintf(&b, "  and %d steps more\n", r.Dropped)
	}
	return b.String()
}

// String tells the step without times.
func (d DoneStep) String() string {
	s := fmt.Sprintf("%s %s", d.Op.Sign(), d.Key)
	if d.Error != "" {
		s += " failed: " + d.Error
	}
	return s
}

// Query selects records; the zero value selects all.
type Query struct {
	Seq   uint64
	Key   kv.Key
	Since time.Time
	Limit int // the newest that many
}
