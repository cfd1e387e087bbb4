package lifecycle

import "time"

// Run is one life of a container: what tells it from the next one under the
// same id. Pid and Netns are 0 of a run that was over before it was seen.
type Run struct {
	StartedAt time.Time
	Pid       int
	// Netns is the inode of its network namespace.
	Netns uint64
}

// Exit is how a run ended.
type Exit struct {
	// Code is the exit code, -1 if nobody knows.
	Code int
	// Signal that ended it by the exit code (137 is 9), 0 if none did.
	Signal int
	// Reason says why, "" if there is nothing to say: that memory had run out, the
	// error of the runtime.
	Reason     string
	StartedAt  time.Time
	FinishedAt time.Time
}

// Answer is what a runtime says of the last run of a container.
type Answer struct {
	Running bool
	// Pid is 0 if it does not run.
	Pid                   int
	StartedAt, FinishedAt time.Time
}

// Ran reports whether there ever was a run.
func (a Answer) Ran() bool {
	return a.Running || !a.StartedAt.IsZero() || !a.FinishedAt.IsZero()
}

// IsOf reports whether the answer is about r. Of a run that is over the process is not
// known any more.
func (a Answer) IsOf(r Run) bool {
	if !a.StartedAt.Equal(r.StartedAt) {
		return false
	}
	return a.Pid == r.Pid || a.Pid == 0 || r.Pid == 0
}

// OverBefore reports whether the run was over before a time.
func (a Answer) OverBefore(t time.Time) bool {
	return !a.Running && a.Ran() && a.StartedAt.Before(t) && a.FinishedAt.Before(t)
}
