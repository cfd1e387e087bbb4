package oom

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kmsg is /dev/kmsg.
type kmsg struct {
	file *os.File
	conn syscall.RawConn
	buf  []byte
}

// OpenKmsg opens the kernel's log, from its oldest message on. It needs root.
func OpenKmsg() (Messages, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/kmsg: %w", err)
	}
	k := &kmsg{file: os.NewFile(uintptr(fd), "/dev/kmsg"), buf: make([]byte, 8<<10)}
	if k.conn, err = k.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, k.file.Close())
	}
	return k, nil
}

// Next reads one record: a read never returns more.
func (k *kmsg) Next() (m Message, err error) {
	for {
		n, failed := 0, error(nil)
		if err := k.conn.Control(func(fd uintptr) { n, failed = unix.Read(int(fd), k.buf) }); err != nil {
			return m, err
		}
		switch {
		case errors.Is(failed, unix.EAGAIN):
			return m, ErrNone
		case errors.Is(failed, unix.EPIPE), errors.Is(failed, unix.EINVAL): // EINVAL: longer than the buffer
			return m, ErrLost
		case errors.Is(failed, unix.EINTR):
			continue
		case failed != nil:
			return m, fmt.Errorf("/dev/kmsg: %w", failed)
		}
		if m, ok := parseMessage(string(k.buf[:n])); ok {
			m.Age = age(m.stamp)
			return m, nil
		}
	}
}

// age is how long ago the kernel's clock showed a time.
func age(stamp time.Duration) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return max(0, time.Duration(now.Nano())-stamp)
}

// Wait costs a goroutine and no thread: the runtime's poller watches the file.
func (k *kmsg) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = k.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err := k.conn.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return err == nil && n > 0
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (k *kmsg) Close() error { return k.file.Close() }
