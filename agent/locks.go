package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/plumb-net/plumb/plugins/confirm"
	"github.com/plumb-net/plumb/plugins/private"
)

// lockDir holds a lock per label, so that two agents with stores of their own do
// not both serve one label on a host. Only root can make, take or remove what is
// in it: in a directory that all may write to anybody could keep an agent from its
// label.
const lockDir = "/run/plumb-locks"

// proxyDir holds, in the run directory, the sockets by which proxies are asked.
const proxyDir = "proxies"

// lock is a file that only one holds, and what it stands for.
type lock struct{ path, what string }

// locks keeps others from the state directory and the label.
type locks struct{ held []*private.Lock }

// takeLocks makes the directories and locks them. Without a directory for labels none is
// locked.
func takeLocks(c Config, labels string, log *slog.Logger) (*locks, error) {
	if err := checkDirs(c); err != nil {
		return nil, err
	}
	wanted := []lock{{filepath.Join(c.StateDir, "lock"), "state directory " + c.StateDir}}
	dirs := []string{c.StateDir, c.RunDir}
	if labels != "" {
		wanted = append([]lock{{filepath.Join(labels, c.Label+".lock"), "label " + c.Label}}, wanted...)
		dirs = append(dirs, labels)
	}
	for _, dir := range dirs {
		if err := private.Make(dir); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{c.StateDir, c.RunDir} {
		if st, err := os.Stat(dir); err == nil && st.Mode().Perm()&0o077 != 0 {
			log.Info("the directory was there and keeps its mode; what plumb-agent makes in it is closed to others",
				"dir", dir, "mode", fmt.Sprintf("%04o", st.Mode().Perm()))
		}
	}
	l := &locks{}
	for _, lock := range wanted {
		if err := l.take(lock.path, lock.what); err != nil {
			l.release()
			return nil, err
		}
	}
	for _, dir := range []string{c.StateDir, c.RunDir, filepath.Join(c.StateDir, "ipam"), filepath.Join(c.StateDir, "cni"), filepath.Join(c.RunDir, "cni-queue")} {
		if err := private.RemoveUnfinished(dir); err != nil {
			log.Warn("files of an interrupted write cannot be removed", "dir", dir, "error", err)
		}
	}
	return l, nil
}

func (l *locks) take(path, what string) error {
	lock, err := private.Take(path)
	var held *private.Held
	if errors.As(err, &held) {
		return fmt.Errorf("another plumb-agent (pid %d) uses the %s: stop it, or choose another with --label and --state-dir", held.PID, what)
	}
	if err != nil {
		return err
	}
	l.held = append(l.held, lock)
	return nil
}

func (l *locks) release() {
	for _, lock := range l.held {
		lock.Release()
	}
}

// checkDirs looks at both directories before either is made: one may be in the
// other.
func checkDirs(c Config) error {
	for flag, dir := range map[string]string{"--state-dir": c.StateDir, "--run-dir": c.RunDir} {
		known := ourFiles()
		for _, other := range []string{c.StateDir, c.RunDir} {
			if filepath.Dir(other) == dir {
				known.Dirs = append(known.Dirs, filepath.Base(other))
			}
		}
		if err := private.Check(dir, known); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}

// ourFiles are by what a run or state directory of ours is known.
func ourFiles() private.Known {
	return private.Known{
		Files: []string{"ledger", "uuid", "agent.sock.lock", "etcd.sock.lock", "cni.sock.lock"},
		More:  []string{"lock", labelFile, "agent.sock", "etcd.sock", "cni.sock", "store", "store.json", "history", "history.1", "events", "events.1", confirm.FileName, freezeFile},
		Dirs:  []string{"cni-queue", proxyDir, "etcd", "ipam", "cni", "lost+found"}, // the last where it is a file system of its own
	}
}
