package engine

import (
	"log/slog"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// tally is what has come of a transaction since it was at rest.
type tally struct {
	since              time.Time
	running            int // operations that have begun, and neither ended nor are overdue
	operations, failed int
}

// Tally counts an operation that begins to its transaction, which is told in the log when it rests.
func (e *recorder) Tally(o *kind.Op) {
	t := e.tallies[o.Cause]
	if t == nil {
		t = &tally{since: e.Now}
		e.tallies[o.Cause] = t
	}
	t.running++
}

// ended counts the outcome of an operation that has begun.
func (e *recorder) ended(o *kind.Op, failed bool) {
	t := e.tallies[o.Cause]
	if t == nil {
		return
	}
	if t.operations++; failed {
		t.failed++
	}
	if t.running--; t.running == 0 {
		e.resting = append(e.resting, o.Cause)
	}
}

// TellDone logs the transactions of which nothing is under way any more, at the end of a
// turn: what follows from an outcome has begun by then. One that goes on later, as when
// something is tried again, is told once more, of what was done since.
func (e *nodes) TellDone() {
	for _, seq := range e.resting {
		t := e.tallies[seq]
		if t == nil || t.running > 0 {
			continue
		}
		delete(e.tallies, seq)
		r := e.Hist.Head(seq)
		about := []any{"seq", seq, "source", r.Source}
		if r.Note != "" {
			about = append(about, "note", r.Note)
		}
		about = append(about, "keys", r.AskedTotal, "operations", t.operations, "errors", t.failed, "took", e.Now.Sub(t.since))
		e.logf(slog.LevelInfo, "transaction", about...)
	}
	e.resting = e.resting[:0]
}
