package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/plumb-net/plumb/plugins/private"
)

// lockWait is how long the server of an agent that was killed may take to end.
const lockWait = 5 * time.Second

// InUse is in the error of a server whose data another one uses.
const InUse = "another server uses the data"

// lockDir keeps a second server away from the data. etcd itself would wait
// for the other to go, for ever and silently.
func lockDir(ctx context.Context, dir string) (*private.Lock, error) {
	return lock(ctx, dir, func(int) {})
}

// Seize keeps servers away from the data until release. Forced, it ends the
// one that uses it.
func Seize(ctx context.Context, dir string, force bool) (release func(), err error) {
	l, err := lock(ctx, dir, func(pid int) {
		if force && pid > 1 && isServer(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// lock takes the lock of the data; held is called with its holder, 0 if that is not
// known, whenever another has it.
func lock(ctx context.Context, dir string, held func(pid int)) (*private.Lock, error) {
	for begin := time.Now(); ; {
		l, err := private.Take(filepath.Join(dir, "lock"))
		var other *private.Held
		switch {
		case err == nil:
			return l, nil
		case !errors.As(err, &other):
			return nil, fmt.Errorf("embedded etcd: %w", err)
		}
		held(other.PID)
		if time.Since(begin) > lockWait || ctx.Err() != nil {
			return nil, fmt.Errorf("embedded etcd in %s: %s (%w); two agents need different --state-dir", dir, InUse, err)
		}
	}
}

// isServer reports whether a process was started by [Launch].
func isServer(pid int) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && strings.Contains("\x00"+string(environ), "\x00"+asServer+"=")
}
