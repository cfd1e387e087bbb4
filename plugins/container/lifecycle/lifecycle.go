package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// State is how far the last run of a container is.
type State int

// The states. See the package for what leads from one to another.
const (
	Never State = iota
	Running
	Paused
	Ending
	Ended
)

func (s State) String() string {
	return [...]string{"never", "running", "paused", "ending", "ended"}[s]
}

// mostPast is how many runs that have ended are remembered.
const mostPast = 16

// Lifecycle is how far the runs of a container are. The zero value is one that never
// ran. Its fields are for reading; only methods change them.
type Lifecycle struct {
	State State
	// Run is the last run, if one began.
	Run Run
	// Noticed is when it was noticed that the run is over, Why how; zero in all states
	// but Ending and Ended, and also where its exit was known at once.
	Noticed time.Time
	Why     string
	// Exit is how the run ended; zero in all states but Ended.
	Exit Exit
	// Before is the run before it.
	Before Finished

	// dated is when the runtime says by now that the run began, if it forgot.
	dated time.Time
	past  []Run // that have ended, the oldest first
}

// Finished is a run with its end.
type Finished struct {
	Run  Run
	Exit Exit
}

// Began reports whether there ever was a run.
func (l *Lifecycle) Began() bool { return l.State != Never }

// Alive reports whether a run began and its exit was not recorded.
func (l *Lifecycle) Alive() bool { return l.State != Never && l.State != Ended }

// Begin makes r the last run. Of one that it follows without an exit nothing more is
// learnt.
func (l *Lifecycle) Begin(r Run) {
	*l = Lifecycle{State: Running, Run: r, Before: Finished{l.Run, l.Exit}, past: l.past}
}

// Identify adds what was not known of the run.
func (l *Lifecycle) Identify(pid int, netns uint64) {
	l.Run.Pid, l.Run.Netns = cmp.Or(l.Run.Pid, pid), cmp.Or(l.Run.Netns, netns)
}

// Pause notes that the run is paused.
func (l *Lifecycle) Pause() { l.move(Running, Paused) }

// Resume notes that the run goes on.
func (l *Lifecycle) Resume() { l.move(Paused, Running) }

func (l *Lifecycle) move(from, to State) {
	if l.State == from {
		l.State = to
	}
}

// End notes that the run is over, before it is known how it ended.
func (l *Lifecycle) End(at time.Time, why string) {
	if l.State == Running || l.State == Paused {
		l.State, l.Noticed, l.Why = Ending, at, why
	}
}

// RecordExit notes how the run ended.
func (l *Lifecycle) RecordExit(x Exit) {
	if !l.Alive() {
		return
	}
	l.State, l.Exit = Ended, x
	l.past = append(l.past[:len(l.past):len(l.past)], l.Run)
	if len(l.past) > mostPast {
		l.past = l.past[1:]
	}
}

// Amend replaces how the run ended by what is known better.
func (l *Lifecycle) Amend(x Exit) {
	if l.State == Ended {
		l.Exit = x
	}
}

// AmendBefore is Amend for the exit code of the run before.
func (l *Lifecycle) AmendBefore(code int) { l.Before.Exit.Code = code }

// Same reports whether an answer is of the last run.
func (l *Lifecycle) Same(a Answer) bool { return l.Began() && a.IsOf(l.Run) }

// Stale reports whether an answer shows what is known to be over: its runtime has not
// noticed yet, or it is from before.
func (l *Lifecycle) Stale(a Answer) bool {
	if l.Same(a) {
		return a.Running && (l.State == Ending || l.State == Ended)
	}
	return a.Ran() && slices.ContainsFunc(l.past, a.IsOf)
}

// StartOf is when the run of an answer began: as the answer says, or as is known, if it is
// about the last run and its runtime has forgotten: it tells no time, that of a run
// before, or another one. lives: the answer names the process that is held, and that
// lives.
func (l *Lifecycle) StartOf(a Answer, lives bool) time.Time {
	if !l.Began() || a.StartedAt.Equal(l.Run.StartedAt) {
		return a.StartedAt
	}
	earlier := a.StartedAt.Before(l.Run.StartedAt) && l.Run.Pid != 0
	switch {
	case lives && l.Alive():
	case !l.dated.IsZero() && a.StartedAt.Equal(l.dated):
	case earlier && a.Running && a.Pid == l.Run.Pid:
	case earlier && !a.Running && a.FinishedAt.After(l.Run.StartedAt):
	default:
		return a.StartedAt
	}
	l.dated = a.StartedAt
	return l.Run.StartedAt
}

// String tells the state, and of the run what tells it from others.
func (l *Lifecycle) String() string {
	text := l.State.String()
	if l.Run.Pid != 0 {
		text += fmt.Sprintf(" pid=%d", l.Run.Pid)
	}
	switch l.State {
	case Ending:
		text += fmt.Sprintf(" why=%q", l.Why)
	case Ended:
		text += fmt.Sprintf(" exit=%d", l.Exit.Code)
	}
	return text
}
