package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// maxSocketPath is what fits into the kernel's sun_path with its final zero.
const maxSocketPath = 107

// Listen makes the socket of the agent. Only root and the agent's own user can
// reach it, from the first moment on: the directory is made with mode 0700, the
// socket is born with mode 0600, and who connects is asked for credentials.
// The socket of a dead agent is replaced; that of a live one is refused.
func Listen(path string, log *slog.Logger) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket %s: the path has %d bytes and the kernel allows %d; choose a shorter --run-dir", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := closeDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	lock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	l, err := bind(path)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &guarded{UnixListener: l, lock: lock, uid: os.Geteuid(), log: log}, nil
}

// closeDir takes the rights of others from a run directory that is ours alone.
// One that holds directories or belongs to somebody else (/run, /tmp) is
// refused: closing it would break the host.
func closeDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("the directory is open to others (mode %04o) and belongs to user %d; give --run-dir a directory of its own", info.Mode().Perm(), st.Uid)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			return fmt.Errorf("the directory is open to others (mode %04o) and holds %s; give --run-dir a directory of its own, or close it with chmod 700", info.Mode().Perm(), e.Name())
		}
	}
	return os.Chmod(dir, 0o700)
}

// lockSocket keeps two agents that start at the same time from replacing each
// other's socket. The lock is the kernel's, so a dead agent holds none.
func lockSocket(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, inUse(path)
		}
		return nil, fmt.Errorf("socket %s: lock: %w", path, err)
	}
	return f, nil
}

func inUse(path string) error {
	return fmt.Errorf("socket %s: another agent listens there; stop it, or give this one another --run-dir", path)
}

func bind(path string) (*net.UnixListener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// A socket file takes its mode from the socket, less the umask.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmod error
		err := c.Control(func(fd uintptr) { chmod = syscall.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmod)
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil { // an odd umask
		l.Close()
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return l.(*net.UnixListener), nil
}

// removeStale removes the socket that a dead agent left, and nothing else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: something else is there; remove it, or choose another --run-dir", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return inUse(path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("socket %s: cannot tell whether an agent listens there: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	return nil
}
