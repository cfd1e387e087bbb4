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
// when ctx ends.
type Runtime interface {
	// Name is the prefix of the runtime's containers: "docker".
	Name() string
	// Version says what answers, for operators.
	Version(ctx context.Context) (string, error)
	// List returns all containers, also those that do not run.
	List(ctx context.Context) ([]Summary, error)
	// Inspect returns one container, or ErrNotFound.
	Inspect(ctx context.Context, id string) (Container, error)
	// Events subscribes to changes, calls ready once the subscription stands,
	// and then hint for each container that may have changed. It returns when
	// the stream ends. hint is quick and never blocks.
	Events(ctx context.Context, ready func(), hint func(id string)) error
}

// Summary is a container as a list shows it.
type Summary struct {
	ID   string
	Name string
	// Running is whether the list shows it with a process.
	Running bool
}

// Container is a container as its runtime describes it.
type Container struct {
	ID    string
	Name  string
	Image string
	// State is the runtime's word: created, running, paused, exited, dead.
	State string
	// Running is whether it has a process now, paused ones included.
	Running bool
	// Pid of its first process; 0 if it does not run.
	Pid        int
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int
	// Reason says why it ended or could not start, if that is known.
	Reason string
	Labels map[string]string
	// Env is its environment, NAME=value. The tracker looks for the service
	// label in it and keeps nothing else.
	Env       []string
	Addresses []string
	// HostNetwork is whether it lives in the network namespace of the host.
	HostNetwork bool
	// Joins is the id or name of the container whose network namespace it
	// was started in, "" if it got its own.
	Joins string
}

// run tells one life of a container from the next one under the same id. The
// process that is held and its namespace complete it.
type run struct {
	pid     int
	started time.Time
}

func (c Container) run() run {
	if !c.Running {
		return run{}
	}
	return run{pid: c.Pid, started: c.StartedAt}
}
