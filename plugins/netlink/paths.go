package netlink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/openfiles"
)

// pathWatch notices that paths began or ceased to be namespaces.
//
// A namespace file is a mount, so that is a change of the mount table, also
// where the path stays as a plain file. Only a name that is a symbolic link
// comes and goes without one; for those it watches the directory of names.
type pathWatch struct {
	mounts *os.File
	notify *os.File
	fd     int // of notify
	dir    string
	done   sync.WaitGroup
	closed atomic.Bool
	end    chan struct{}
	failed chan struct{} // has room for one
}

// lookAgain is when a look that failed is repeated: at the limit of open files a
// directory cannot be read, and nobody tells when it can.
const lookAgain = time.Second

// watchPaths calls changed soon after every change, and perhaps without one; again
// while it fails.
func watchPaths(dir string, changed func() error) (*pathWatch, error) {
	mounts, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("watch mounts: %w", err)
	}
	notify, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		unix.Close(mounts)
		return nil, fmt.Errorf("watch %s: %w", dir, openfiles.ExplainInotify(err))
	}
	w := &pathWatch{
		mounts: os.NewFile(uintptr(mounts), "mountinfo"), notify: os.NewFile(uintptr(notify), "inotify"),
		fd: notify, dir: dir, end: make(chan struct{}), failed: make(chan struct{}, 1),
	}
	w.arm()
	raw, err := w.mounts.SyscallConn()
	if err != nil {
		w.close()
		return nil, fmt.Errorf("watch mounts: %w", err)
	}
	look := func() {
		w.arm() // before looking: what comes later is told
		if changed() == nil {
			return
		}
		select {
		case w.failed <- struct{}{}:
		default:
		}
	}
	w.done.Go(func() { w.readMounts(raw, look) })
	w.done.Go(func() { w.readNotify(look) })
	w.done.Go(func() { w.repeat(look) })
	return w, nil
}

// arm watches the directory of names, or its parent until it is there. Watching
// what is watched already changes nothing.
func (w *pathWatch) arm() {
	const names = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	_, err := unix.InotifyAddWatch(w.fd, w.dir, names)
	if errors.Is(err, unix.ENOENT) {
		_, _ = unix.InotifyAddWatch(w.fd, filepath.Dir(w.dir), unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR|unix.IN_ONESHOT)
		// It may have come between the two.
		_, _ = unix.InotifyAddWatch(w.fd, w.dir, names)
	}
}

// readMounts stays within one read: the file tells of a change to one poll only,
// which is that of the Go runtime, and the runtime calls the function again
// whenever it has seen something, also while the function ran.
func (w *pathWatch) readMounts(raw syscall.RawConn, look func()) {
	_ = raw.Read(func(uintptr) bool {
		if !w.closed.Load() {
			look()
		}
		return w.closed.Load()
	})
}

func (w *pathWatch) readNotify(look func()) {
	buf := make([]byte, 4096)
	for {
		if _, err := w.notify.Read(buf); err != nil || w.closed.Load() {
			return
		}
		look()
	}
}

func (w *pathWatch) repeat(look func()) {
	for {
		select {
		case <-w.end:
			return
		case <-w.failed:
		}
		select {
		case <-w.end:
			return
		case <-time.After(lookAgain):
			look()
		}
	}
}

func (w *pathWatch) close() {
	w.closed.Store(true)
	close(w.end)
	_ = w.mounts.SetReadDeadline(time.Unix(1, 0))
	_ = w.notify.SetReadDeadline(time.Unix(1, 0))
	w.done.Wait()
	w.mounts.Close()
	w.notify.Close()
}
