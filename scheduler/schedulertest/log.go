package schedulertest

import (
	"fmt"

	"github.com/plumb-net/plumb/scheduler"
)

// entry is a line of the log, put into words only when somebody reads it.
type entry struct {
	what  string // "+ ", "~ ", "- ", "! create "
	key   scheduler.Key
	text  string
	fault Fault
	note  fmt.Stringer
}

func (e entry) String() string {
	switch {
	case e.note != nil:
		return "  " + e.note.String()
	case e.fault != None:
		return e.what + string(e.key) + ": " + e.fault.String()
	case e.what == "- ":
		return e.what + string(e.key)
	case e.key == "":
		return e.what + e.text
	}
	return e.what + string(e.key) + "=" + e.text
}

// Lines are the operations so far, in order: "+" made, "~" changed, "-"
// removed, "!" went wrong. Reads that succeed leave no line.
func (w *World) Lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]string, len(w.log))
	for i, e := range w.log {
		out[i] = e.String()
	}
	return out
}

// Logged is how many lines there are.
func (w *World) Logged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.log)
}

// Note puts a remark between the operations in the log.
func (w *World) Note(remark fmt.Stringer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, entry{note: remark})
}

// Forget empties the log.
func (w *World) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = nil
}

// Counts tells how often each operation, read and fault happened so far.
func (w *World) Counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	w.Tally.each(func(name string, n int) { out[name] = n })
	return out
}
