package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// maxSocketPath is what fits into the kernel's sun_path with its final zero.
const maxSocketPath = 107

// CheckSocket tells whether the path can be a socket. It touches nothing, so
// that it can be asked before anything is started.
func CheckSocket(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("socket %s: the path must be absolute", path)
	}
	if len(path) > maxSocketPath {
		return fmt.Errorf("socket %s: the path has %d bytes and the kernel allows %d; choose a shorter --run-dir",
			path, len(path), maxSocketPath)
	}
	return nil
}

// listen makes the socket. Nobody but the owner can reach it at any moment:
// its directory is closed before the socket is there, and the socket itself
// before the server accepts.
func listen(path string) (net.Listener, error) {
	if err := CheckSocket(path); err != nil {
		return nil, err
	}
	if err := closeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return l, nil
}

// closeDir makes the directory with mode 0700, or takes the rights of others
// from one that is there. It refuses a directory that has directories of its
// own or another owner: closing /run or /tmp would break the host.
func closeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	hint := fmt.Sprintf("run directory %s is open to others (mode %04o)", dir, info.Mode().Perm())
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s and belongs to user %d; give --run-dir a directory of its own", hint, st.Uid)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			return fmt.Errorf("%s and holds %s, so it is not closed; give --run-dir a directory of its own or close it with chmod 700",
				hint, e.Name())
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	return nil
}

// removeStale removes a socket that a killed agent left, and nothing else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: something else is there; remove it or choose another --run-dir", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("socket %s: another server listens on it; two agents need different --run-dir", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	return nil
}
