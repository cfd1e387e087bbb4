package container

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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

// Open takes hold of a process. What it reads it reads between opening the
// pidfd and finding the process still alive, so a reused id cannot slip in.
func (k *Kernel) Open(pid int, ended func()) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, ErrNoProcess
	case err != nil:
		return openByStartTime(pid, ended)
	}
	p, err := read(pid)
	if err == nil && exited(uintptr(fd)) {
		err = ErrNoProcess
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	p.watchPidfd(fd, ended)
	return p, nil
}

// watchPidfd calls ended when the process ends, until closed. The wait costs a
// goroutine and no thread: the runtime's poller watches the descriptor.
func (p *Process) watchPidfd(fd int, ended func()) {
	file := os.NewFile(uintptr(fd), "pidfd")
	once := &oneShot{call: ended}
	go func() {
		conn, err := file.SyscallConn()
		if err == nil {
			err = conn.Read(exited)
		}
		if err == nil {
			once.fire()
		}
	}()
	p.Lives = func() bool {
		over := true
		conn, err := file.SyscallConn()
		if err == nil {
			err = conn.Control(func(fd uintptr) { over = exited(fd) })
		}
		return err == nil && !over
	}
	p.Close = func() {
		once.stop()
		_ = file.Close()
	}
}

// exited reports whether the process behind a pidfd has ended.
func exited(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

// openByStartTime is Open without a pidfd: the start time tells one process
// with the id from the next.
func openByStartTime(pid int, ended func()) (*Process, error) {
	born, err := startTime(pid)
	if err != nil {
		return nil, err
	}
	p, err := read(pid)
	if err != nil {
		return nil, err
	}
	p.Lives = func() bool {
		now, err := startTime(pid)
		return err == nil && now == born
	}
	if !p.Lives() {
		return nil, ErrNoProcess
	}
	once := &oneShot{call: ended}
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if !p.Lives() {
				once.fire()
				return
			}
		}
	}()
	p.Close = func() {
		if once.stop() {
			close(done)
		}
	}
	return p, nil
}

// read gathers what is told of a process.
func read(pid int) (*Process, error) {
	ns, err := netnsOf(pid)
	if err != nil {
		return nil, err
	}
	cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil && !gone(err) && !errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	return &Process{Netns: ns, Cgroup: string(cgroup)}, nil
}

func netnsOf(pid int) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st)
	if gone(err) {
		return 0, ErrNoProcess
	}
	return st.Ino, err
}

// startTime is when the process began, in clock ticks since the boot: field 22
// of its stat file. The name in field 2 may hold blanks and brackets.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if gone(err) {
		return 0, ErrNoProcess
	}
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return 0, ErrNoProcess
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

// gone reports whether an error of /proc means that the process is no more.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// oneShot makes a call at most once and never after it was stopped.
type oneShot struct {
	call func()
	mu   sync.Mutex
	done bool
}

func (o *oneShot) fire() {
	if o.stop() {
		o.call()
	}
}

// stop reports whether it was the first of fire and stop.
func (o *oneShot) stop() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := !o.done
	o.done = true
	return first
}
