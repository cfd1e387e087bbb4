package container

import "errors"

// ErrNoProcess: no process has that id now.
var ErrNoProcess = errors.New("no such process")

// Processes is what the tracker asks of the kernel. [Kernel] is the real one.
type Processes interface {
	// OwnNetns is the inode of the agent's network namespace.
	OwnNetns() uint64
	// Open takes hold of the process that has the id now, or returns
	// ErrNoProcess. ended is called once, from another goroutine, when that
	// process ends, unless it was closed before.
	Open(pid int, ended func()) (*Process, error)
}

// Process is a process that is held: what is said here is said of it and not
// of a later process with the same id.
type Process struct {
	// Netns is the inode of its network namespace.
	Netns uint64
	// Cgroup is /proc/<pid>/cgroup.
	Cgroup string
	// Lives reports whether it has not ended yet, before Close.
	Lives func() bool
	// Close lets go of it. No call of ended begins after Close returned.
	Close func()
}
