package pidfd

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollEvery is how often a process is looked at that nothing tells of.
const pollEvery = time.Second

// Process is a process that is held until Close.
type Process struct {
	pid int
	// born is its start time, which tells it from the next one where there is no pidfd.
	born uint64
	file *os.File
	conn syscall.RawConn
	done chan struct{} // closed by Close
	once sync.Once
}

// Open holds the process that has the id now. The error is ESRCH if there is none. One
// that was not reaped yet is held too: Alive tells.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // lets the runtime's poller watch it
		unix.Close(fd)
		return nil, err
	}
	p := &Process{pid: pid, file: os.NewFile(uintptr(fd), "pidfd"), done: make(chan struct{})}
	if p.conn, err = p.file.SyscallConn(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// OpenByStartTime is Open for kernels without pidfds, and for when file descriptors
// have run out: the process is looked at every second.
func OpenByStartTime(pid int) (*Process, error) {
	born, err := StartTime(pid)
	if err != nil {
		return nil, err
	}
	return &Process{pid: pid, born: born, done: make(chan struct{})}, nil
}

// Alive reports whether the process has not ended yet. It asks the system.
func (p *Process) Alive() bool {
	if p.file == nil {
		now, err := StartTime(p.pid)
		return err == nil && now == p.born
	}
	over := true
	err := p.conn.Control(func(fd uintptr) { over = exited(fd) })
	return err == nil && !over
}

// OnEnd calls f from another goroutine when the process ends, at once if it has, unless
// it is closed before. The wait costs a goroutine and no thread.
func (p *Process) OnEnd(f func()) {
	go func() {
		if p.wait() {
			f()
		}
	}()
}

// wait reports whether the process ended before it was closed. The runtime's poller
// watches the pidfd; where it cannot, the process is looked at now and then.
func (p *Process) wait() bool {
	watched := p.conn != nil && p.conn.Read(exited) == nil
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !watched && p.Alive() {
		select {
		case <-p.done:
			return false
		case <-tick.C:
		}
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends the process. That it has ended already is no error.
func (p *Process) Kill() error {
	if p.file == nil {
		if !p.Alive() {
			return nil
		}
		return over(unix.Kill(p.pid, unix.SIGKILL))
	}
	var err error
	if closed := p.conn.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) }); closed != nil {
		return closed
	}
	return over(err)
}

func over(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Close lets go of the process. It may be called more than once.
func (p *Process) Close() {
	p.once.Do(func() {
		close(p.done)
		if p.file != nil {
			_ = p.file.Close()
		}
	})
}

// exited reports whether the process behind a pidfd has ended.
func exited(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}
