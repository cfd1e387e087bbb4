package netlink

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// openSetting opens a file below /proc/sys, of the namespace that the thread is in. Where
// /proc/sys is mounted read-only, as container runtimes do, it opens the file for writing on a
// procfs of our own.
func openSetting(place string, flags int) (fd int, err error) {
	fd, err = unix.Open("/proc/sys/"+place, flags|unix.O_CLOEXEC, 0)
	if !errors.Is(err, unix.EROFS) {
		return fd, err
	}
	root, failed := ownProc()
	if failed != nil {
		return -1, fmt.Errorf("%w; make /proc/sys writable for the agent, or give it CAP_SYS_ADMIN (%w)", err, failed)
	}
	return unix.Openat(root, "sys/"+place, flags|unix.O_CLOEXEC, 0)
}

// ownProc mounts a procfs that no path leads to. It needs CAP_SYS_ADMIN and Linux 5.2.
var ownProc = sync.OnceValues(func() (root int, err error) {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open a procfs: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("create a procfs: %w", err)
	}
	root, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("mount a procfs: %w", err)
	}
	return root, nil
})
