package netlink

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// holder is one process or path by which a namespace was opened. The namespace
// stays open until its last holder ends.
type holder struct {
	id      kernel.NS
	path    string
	pid     int // 0 unless it is a process
	pidfd   int
	token   int32
	forGood bool
}

// same tells whether another holder adds nothing to this one.
func (h *holder) same(other *holder) bool {
	if h.forGood || h.pid != other.pid || !h.alive() {
		return h.forGood
	}
	return h.pid != 0 || h.path == other.path
}

// alive asks the system, not what we were told last.
func (h *holder) alive() bool {
	switch {
	case h.forGood:
		return true
	case h.pid != 0:
		return h.running()
	}
	return inodeAt(h.path) == h.id
}

// running tells whether the process has not ended; true without a process.
func (h *holder) running() bool {
	if h.pidfd < 0 {
		return true
	}
	fds := []unix.PollFd{{Fd: int32(h.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return err == nil && n == 0
		}
	}
}

func (h *holder) close() {
	if h.pidfd >= 0 {
		unix.Close(h.pidfd)
		h.pidfd = -1
	}
}

// keeper notices the end of holders. A process tells by its pidfd. A namespace
// file is a mount, so the appearance and the end of such a path is a change of
// the mount table, which /proc/self/mountinfo tells.
type keeper struct {
	k    *Kernel
	poll *poller
	fd   int // mountinfo
	done sync.WaitGroup

	stop  chan struct{}
	procs map[int32]*holder // by token; guarded by k.mu
	mount int32
}

func newKeeper(k *Kernel) (*keeper, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		p.close()
		return nil, fmt.Errorf("watch mounts: %w", err)
	}
	r := &keeper{k: k, poll: p, fd: fd, stop: make(chan struct{}), procs: map[int32]*holder{}}
	if r.mount, err = p.add(fd, unix.EPOLLPRI); err != nil {
		unix.Close(fd)
		p.close()
		return nil, fmt.Errorf("watch mounts: %w", err)
	}
	r.done.Go(r.run)
	return r, nil
}

// keep starts to wait for the end of a holder. k.mu is held.
func (r *keeper) keep(h *holder) error {
	if h.pidfd < 0 {
		return nil
	}
	token, err := r.poll.add(h.pidfd, unix.EPOLLIN)
	if err != nil {
		return fmt.Errorf("wait for the end of process %d: %w", h.pid, err)
	}
	h.token = token
	r.procs[token] = h
	return nil
}

// forget lets go of a holder. k.mu is held.
func (r *keeper) forget(h *holder) {
	delete(r.procs, h.token)
	h.close()
}

func (r *keeper) close() {
	close(r.stop)
	r.poll.wake()
	r.done.Wait()
	r.poll.close()
	unix.Close(r.fd)
}

func (r *keeper) run() {
	events := make([]unix.EpollEvent, 64)
	for {
		ready, err := r.poll.wait(events)
		select {
		case <-r.stop:
			return
		default:
		}
		if err != nil {
			return // the poller is closed, or this process is out of its senses
		}
		mounts := false
		r.k.mu.Lock()
		for _, ev := range ready {
			mounts = mounts || ev.Fd == r.mount
			if h := r.procs[ev.Fd]; h != nil {
				r.k.end(h)
			}
		}
		r.k.mu.Unlock()
		if mounts {
			r.k.endPaths()
			r.k.lookAtNames()
		}
	}
}
