package container

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/pidfd"
)

// Kernel opens processes by pidfd. On kernels without it, and when file
// descriptors run out, it looks at the start time every second instead.
type Kernel struct {
	own uint64
}

// NewKernel makes a Kernel. The namespace in which it is called is the agent's own.
func NewKernel() (*Kernel, error) {
	own, err := netnsOf(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("own network namespace: %w", err)
	}
	return &Kernel{own: own}, nil
}

// OwnNetns is the inode of the agent's network namespace.
func (k *Kernel) OwnNetns() uint64 { return k.own }

// Open takes hold of a process.
func (k *Kernel) Open(pid int, ended func()) (*Process, error) {
	held, err := pidfd.Open(pid)
	if err != nil && !gone(err) {
		held, err = pidfd.OpenByStartTime(pid)
	}
	switch {
	case gone(err):
		return nil, ErrNoProcess
	case err != nil:
		return nil, err
	}
	p, err := describe(pid, held)
	if err != nil {
		held.Close()
		return nil, err
	}
	held.OnEnd(ended)
	return p, nil
}

// describe gathers what is told of a process that is held. It is read before the process
// is found alive still, so a reused id cannot slip in.
func describe(pid int, held *pidfd.Process) (*Process, error) {
	ns, err := netnsOf(pid)
	if err != nil {
		return nil, err
	}
	cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil && !gone(err) && !errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	if !held.Alive() {
		return nil, ErrNoProcess
	}
	return &Process{Netns: ns, Cgroup: string(cgroup), Lives: held.Alive, Close: held.Close}, nil
}

func netnsOf(pid int) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st)
	if gone(err) {
		return 0, ErrNoProcess
	}
	return st.Ino, err
}

// gone reports whether an error of /proc or of a pidfd means that the process is no more.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
