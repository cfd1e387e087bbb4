package netlink

import (
	"fmt"
	"sync"
	"sync/atomic"

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

// same reports whether another holder adds nothing to this one.
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

// running reports whether the process has not ended; true without a process.
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

// keeper notices the end of holders that are processes, by their pidfds. Those
// that are paths are up to the pathWatch.
type keeper struct {
	k      *Kernel
	poll   *poller
	done   sync.WaitGroup
	closed atomic.Bool

	holders map[int32]*holder // by token; guarded by k.mu
}

func newKeeper(k *Kernel) (*keeper, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	r := &keeper{k: k, poll: p, holders: map[int32]*holder{}}
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
	r.holders[token] = h
	return nil
}

// forget lets go of a holder. k.mu is held.
func (r *keeper) forget(h *holder) {
	delete(r.holders, h.token)
	h.close()
}

func (r *keeper) close() {
	r.closed.Store(true)
	r.poll.wake()
	r.done.Wait()
	r.poll.close()
}

func (r *keeper) run() {
	events := make([]unix.EpollEvent, 64)
	for {
		ready, err := r.poll.wait(events)
		if err != nil || r.closed.Load() {
			return
		}
		r.k.mu.Lock()
		for _, ev := range ready {
			if h := r.holders[ev.Fd]; h != nil {
				r.k.end(h)
			}
		}
		r.k.mu.Unlock()
	}
}
