package embedded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockWait is how long the server of an agent that was killed may take to end.
const lockWait = 5 * time.Second

// InUse is in the error of a server whose data another one uses.
const InUse = "another server uses the data"

// lockDir keeps a second server away from the data. etcd itself would wait
// for the other to go, for ever and silently. The lock names its holder.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	return lock(ctx, dir, func(*os.File) {})
}

// Seize keeps servers away from the data until release. Forced, it ends the
// one that uses it.
func Seize(ctx context.Context, dir string, force bool) (release func(), err error) {
	f, err := lock(ctx, dir, func(f *os.File) {
		if pid := holder(f); force && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// lock takes the lock of the data; held is called whenever another has it.
func lock(ctx context.Context, dir string, held func(*os.File)) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	for begin := time.Now(); ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			_ = f.Truncate(0)
			_, _ = f.WriteAt(fmt.Appendf(nil, "%d", os.Getpid()), 0) // on a full disk it has no name
			return f, nil
		}
		held(f)
		if time.Since(begin) > lockWait || ctx.Err() != nil {
			f.Close()
			return nil, fmt.Errorf("embedded etcd in %s: %s (%w); two agents need different --state-dir", dir, InUse, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// holder is the process that holds a lock, 0 if it is not known. A name that
// is written belongs to the holder or to one that has ended.
func holder(f *os.File) int {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || !isServer(pid) {
		return 0
	}
	return pid
}

// isServer reports whether a process was started by [Launch].
func isServer(pid int) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && strings.Contains("\x00"+string(environ), "\x00"+asServer+"=")
}
