package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// lockDir holds a lock per label, so that two agents with stores of their own
// do not both serve one label on a host.
const lockDir = "/run/lock"

// locks keeps others from the state directory and the label.
type locks struct{ files []*os.File }

// takeLocks makes the directories and locks them.
func takeLocks(c Config) (*locks, error) {
	for _, dir := range []string{c.StateDir, c.RunDir} {
		if err := privateDir(dir); err != nil {
			return nil, err
		}
	}
	l := &locks{}
	for path, what := range map[string]string{
		filepath.Join(c.StateDir, "lock"):                "state directory " + c.StateDir,
		filepath.Join(lockDir, "plumb-"+c.Label+".lock"): "label " + c.Label,
	} {
		if err := l.take(path, what); err != nil {
			l.release()
			return nil, err
		}
	}
	return l, nil
}

func (l *locks) take(path, what string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := make([]byte, 32)
		n, _ := f.ReadAt(holder, 0)
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("another plumb-agent (pid %s) uses the %s: stop it, or choose another with --label and --state-dir",
				holder[:n], what)
		}
		return fmt.Errorf("lock %s: %w", path, err)
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendf(nil, "%d", os.Getpid()), 0)
	l.files = append(l.files, f)
	return nil
}

func (l *locks) release() {
	for _, f := range l.files {
		_ = f.Truncate(0)
		f.Close() // ends the lock; the file stays, so that nobody locks a name that is gone
	}
}

// privateDir makes a directory that only root can enter. One that is there
// already and open to others is closed if it is empty or was ours before; a
// directory of somebody else's is refused, not changed.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm()&0o077 == 0 {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	ours := func(e os.DirEntry) bool { return slices.Contains(ourFiles(), e.Name()) }
	if len(entries) > 0 && !slices.ContainsFunc(entries, ours) {
		return fmt.Errorf("%s is open to others (mode %04o) and holds things that are not ours: name a directory for plumb-agent alone, or close this one with chmod 700",
			dir, st.Mode().Perm())
	}
	return os.Chmod(dir, 0o700)
}

// ourFiles are by what a run or state directory of ours is known.
func ourFiles() []string {
	return []string{"lock", "ledger", "uuid", "agent.sock", "etcd.sock", "cni.sock"}
}
