package netlink

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for many files without a thread of its own: its epoll file is
// itself watched by the Go runtime. Files go by tokens, not by descriptor
// numbers, which the system uses again.
type poller struct {
	file *os.File
	raw  syscall.RawConn
	next int32
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a poller: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // lets the runtime watch it
		unix.Close(fd)
		return nil, fmt.Errorf("make a poller: %w", err)
	}
	p := &poller{file: os.NewFile(uintptr(fd), "epoll")}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		p.close()
		return nil, fmt.Errorf("make a poller: %w", err)
	}
	return p, nil
}

func (p *poller) close() { p.file.Close() }

// add starts to wait for events of a file and returns its token. Closing the
// file ends that. Calls of add must not overlap.
func (p *poller) add(fd int, events uint32) (int32, error) {
	p.next++
	token := p.next
	var err error
	if e := p.raw.Control(func(ep uintptr) {
		err = unix.EpollCtl(int(ep), unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: token})
	}); e != nil {
		err = e
	}
	if err != nil {
		return 0, fmt.Errorf("add to poller: %w", err)
	}
	return token, nil
}

// wake ends the wait under way, and all to come.
func (p *poller) wake() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) }

// wait returns the tokens of files that are ready, none when woken.
func (p *poller) wait(events []unix.EpollEvent) ([]unix.EpollEvent, error) {
	var n int
	var err error
	e := p.raw.Read(func(ep uintptr) bool {
		n, err = unix.EpollWait(int(ep), events, 0)
		if err == unix.EINTR {
			n, err = 0, nil
		}
		return n > 0 || err != nil
	})
	if e != nil && !os.IsTimeout(e) {
		return nil, e
	}
	return events[:max(n, 0)], err
}
