package events

import (
	"time"

	"github.com/plumb-net/plumb/plugins/container"
)

// Type is what happened.
type Type = container.EventType

// What happens to the agent and to the runtimes, beside what happens to
// containers.
const (
	// AgentStarted: the agent began; what it logs is from here on of this run.
	AgentStarted Type = "agent_started"
	// RuntimeConnected: all containers of a runtime are known.
	RuntimeConnected Type = "runtime_connected"
	// RuntimeLost: a runtime does not answer; Detail says why.
	RuntimeLost Type = "runtime_lost"
	// RuntimeAbsent: there is no such runtime on this host.
	RuntimeAbsent Type = "runtime_absent"
	// RuntimeVersion: another version answers; Detail is that one.
	RuntimeVersion Type = "runtime_version"
)

// Types are all types, in the order of help texts.
func Types() []Type {
	return []Type{
		container.Discovered, container.Created, container.Started, container.Died, container.OOM,
		container.Paused, container.Unpaused, container.Renamed, container.ImageChanged, container.Removed,
		container.LabelTaken, container.LabelRefused,
		AgentStarted, RuntimeConnected, RuntimeLost, RuntimeAbsent, RuntimeVersion,
	}
}

// Event is one that is kept. It never changes.
type Event struct {
	// Seq numbers the events, from 1, also across runs of the agent. After a
	// run that did not end in good order some numbers are left out.
	Seq uint64
	// Earlier: it is from an earlier run of the agent.
	Earlier bool
	container.Event

	kept time.Time // when it was taken in, by the clock that never jumps
	size int64
}

// Query says which events are meant. The zero value means all.
type Query struct {
	// Types: one of them. None means all.
	Types []Type
	// Container: its name, also one that it had before or after, its id or the
	// beginning of it, or <runtime>:<id>.
	Container string
	// Labels: all of them; NAME=VALUE, or NAME for any value.
	Labels []string
	// Since and Until bound when it happened, by the wall clock. Zero: no bound.
	Since, Until time.Time
	// After: only higher numbers.
	After uint64
	// Limit: the newest so many of those that match. 0: all.
	Limit int

	ids map[string]bool // of containers that were renamed from or to Container
}

// shell is what an event takes without what it points to, roughly.
const shell = 560

// sizeOf is what an event takes in memory at most. What several events share
// is counted with each.
func sizeOf(e *Event) int64 {
	n := shell + len(e.Runtime) + len(e.ID) + len(e.Name) + len(e.Image) + len(e.Microservice) +
		len(e.State) + len(e.OldName) + len(e.OldImage) + len(e.Detail)
	for k, v := range e.Labels {
		n += labelCost + len(k) + len(v)
	}
	if e.Exit != nil {
		n += 96 + len(e.Exit.Reason)
	}
	if o := e.OOM; o != nil {
		n += 192 + len(o.Container) + len(o.Cgroup) + len(o.Owner) + len(o.OwnerCgroup) + len(o.Process) + len(o.Constraint) + len(o.Source)
	}
	return int64(n)
}
