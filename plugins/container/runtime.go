package container

import (
	"context"
	"errors"
	"time"
)

// Errors of runtimes and of the tracker.
var (
	// ErrNotFound: the container is gone. Inspect returns it.
	ErrNotFound = errors.New("no such container")
	// ErrAbsent: there is no such runtime on this host and nobody said that
	// there must be. Any method of a Runtime may return it.
	ErrAbsent = errors.New("no such runtime on this host")
	// ErrUnknown: it cannot be told which containers there are.
	ErrUnknown = errors.New("containers are not known")
)

// Runtime is what the tracker asks of a container runtime. All methods return
// when ctx ends, and may be called from several goroutines at once.
type Runtime interface {
	// Name is the prefix of the runtime's containers: "docker". The ids of
	// runtimes that have namespaces of their own begin with them: k8s.io:<id>.
	Name() string
	// Version says what answers, for operators. It is asked after each
	// reconnect and now and then.
	Version(ctx context.Context) (string, error)
	// List returns all containers, also those that do not run. It is the truth
	// about which there are.
	List(ctx context.Context) ([]Summary, error)
	// Inspect returns one container, or ErrNotFound. It is the truth about it.
	Inspect(ctx context.Context, id string) (Container, error)
	// Events subscribes to changes, calls ready once the subscription stands,
	// so that nothing that happens later is missed, and then hint for each
	// container that may have changed, in the order of the stream. It returns
	// when the stream ends; the tracker subscribes again, for ever. hint is
	// quick and never blocks.
	Events(ctx context.Context, ready func(), hint func(Hint)) error
}

// Pinger is a runtime that can be asked cheaply whether it answers. One that is frozen
// keeps its streams open and says nothing: without a Ping only lists find that out.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Hint says that a container may have changed. The id alone is enough: the
// tracker inspects the container and believes that. What the event told beside
// it is evidence for what no inspect saw: a run that was too short, the exit
// code of a container that was removed at once. Hints may be lost, doubled,
// late or out of order.
type Hint struct {
	ID string
	// Says is what the event tells: Created, Started, Died, OOM or Removed; ""
	// if it tells nothing of use.
	Says EventType
	// At is the time of the event by the runtime's clock. Evidence without it
	// is not used.
	At time.Time
	// Exit is the exit code, of a Died. UnknownExit if the event does not tell.
	Exit int
	// Name and Image of the container, if the event tells them.
	Name, Image string
}

// Summary is a container as a list shows it. It spares inspects: one that is
// listed as it is known is not inspected again.
type Summary struct {
	ID   string
	Name string
	// Running is whether the list shows it with a process.
	Running bool
	// State is the runtime's word, the same as inspect uses; "" if the list does
	// not tell it.
	State string
	// Digest is made of all else that the list tells and inspect would: the exit
	// code, the addresses; not of what changes by itself with time. A container
	// without a Digest is inspected after each list.
	Digest string
	// Since: its present state began at this time or later. Lists that tell an
	// age ("exited 5 minutes ago") bound it; zero if the list does not tell.
	Since time.Time
}

// UnknownExit is the exit code of a run whose real one nobody knows.
const UnknownExit = -1

// OutOfMemory is the Reason of a run that the kernel ended for want of memory.
const OutOfMemory = "OOMKilled"

// Container is a container as its runtime describes it.
type Container struct {
	ID    string
	Name  string
	Image string
	// State is the runtime's word: created, running, paused, exited, dead.
	// Words of no meaning here do no harm.
	State string
	// Running is whether it has a process now, paused ones included.
	Running bool
	// Pid of its first process; 0 if it does not run.
	Pid int
	// CreatedAt tells it from another container that bore the same id before.
	CreatedAt time.Time
	// StartedAt is when its last run began, zero if it never ran. It tells one
	// run from the next, so it must not change while a run lasts and after it.
	StartedAt time.Time
	// FinishedAt is when its last run ended; of no meaning while it runs.
	FinishedAt time.Time
	// ExitCode of its last run, UnknownExit if nobody knows; of no meaning while it runs.
	ExitCode int
	// Reason says why its last run ended, or why it could not start, if that is
	// known. That memory ran out is not for the runtime to say: see ReportOOM.
	Reason string
	Labels map[string]string
	// Env is its environment, NAME=value. The tracker looks for the service
	// label in it and keeps nothing else.
	Env []string
	// Addresses that the runtime gave it, while it runs: CIDR.
	Addresses []string
	// HostNetwork is whether it lives in the network namespace of the host.
	HostNetwork bool
	// Digest is what the Digest of a list would be now. Without it a list is
	// compared with the one before, which costs an inspect more per change.
	Digest string
	// Joins is the id or name of the container whose network namespace it was
	// started in, "" if it got its own; both are in the same namespace of the
	// runtime, which is not named. The containers of a pod join its sandbox.
	Joins string
}

// run tells one life of a container from the next one under the same id. The
// process that is held and its namespace complete it.
type run struct {
	pid     int
	started int64 // nanoseconds, as times do not compare
}

func (c Container) run() run {
	if !c.Running {
		return run{}
	}
	return run{pid: c.Pid, started: c.StartedAt.UnixNano()}
}
