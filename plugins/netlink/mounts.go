package netlink

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mountWatch notices changes of the mount table. A namespace file is a mount,
// so paths that become or cease to be one show there, also those that stay as
// plain files, of which a watch on their directory would not tell.
type mountWatch struct {
	file   *os.File
	raw    syscall.RawConn
	done   sync.WaitGroup
	closed atomic.Bool
}

// watchMounts calls changed soon after every change, and perhaps without one.
func watchMounts(changed func()) (*mountWatch, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("watch mounts: %w", err)
	}
	w := &mountWatch{file: os.NewFile(uintptr(fd), "mountinfo")}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, fmt.Errorf("watch mounts: %w", err)
	}
	w.done.Go(func() {
		// The file tells of a change to one poll only, which is that of the Go
		// runtime. So this stays within one read, which returns to the function
		// whenever the runtime has seen something, also during the call.
		_ = w.raw.Read(func(uintptr) bool {
			if !w.closed.Load() {
				changed()
			}
			return w.closed.Load()
		})
	})
	return w, nil
}

func (w *mountWatch) close() {
	w.closed.Store(true)
	_ = w.file.SetReadDeadline(time.Unix(1, 0))
	w.done.Wait()
	w.file.Close()
}
