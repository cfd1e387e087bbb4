package schedulertest

import (
	"maps"
	"slices"

	"github.com/plumb-net/plumb/scheduler"
)

// entry is a line of the log, put into words only when somebody reads it.
type entry struct {
	what  string // "+ ", "~ ", "- ", "! create "
	key   scheduler.Key
	text  string
	fault Fault
	step  *Step
}

func (e entry) String() string {
	switch {
	case e.step != nil:
		return "  " + e.step.line()
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

func (w *World) logged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.log)
}

// note puts a step between the operations in the log.
func (w *World) note(s *Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, entry{step: s})
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
	w.tally.each(func(name string, n int) { out[name] = n })
	return out
}

func sortedKeys[V any](m map[scheduler.Key]V) []scheduler.Key { return slices.Sorted(maps.Keys(m)) }
