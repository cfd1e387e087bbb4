package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/confirm"
)

// TestStateFilesOfAnotherType: an agent starts, or says which file is wrong, whatever stands
// in the place of one of its files; it never waits, and writes to nothing behind a link.
func TestStateFilesOfAnotherType(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	types := map[string]func(path string) error{
		"pipe": func(p string) error { return unix.Mkfifo(p, 0o600) },
		"link": func(p string) error { return os.Symlink(target, p) },
		"zero": func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
		"dir":  func(p string) error { return os.Mkdir(p, 0o700) },
		"socket": func(p string) error {
			l, err := net.Listen("unix", p)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
	}
	for _, file := range []string{"ledger", "uuid", "store.json", "history", "history.1", "events", "events.1", "ipam/ledger", "cni/ledger", lossesFile, freezeFile, confirm.FileName} {
		for name, put := range types {
			c := onMemory(t, "host7")
			path := filepath.Join(c.StateDir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), put(path)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- RunOn(ctx, c, kerneltest.New(kerneltest.Options{}), slog.DiscardHandler) }()
			ended, err := startsOrEnds(t, filepath.Join(c.RunDir, "agent.sock"), done)
			cancel()
			if !ended {
				<-done
			} else if err == nil || !strings.Contains(err.Error(), filepath.Base(file)) {
				t.Errorf("%s as a %s: %v", file, name, err)
			}
		}
	}
	if text, err := os.ReadFile(target); string(text) != "theirs" || err != nil {
		t.Errorf("behind the links is %q, %v", text, err)
	}
}

// startsOrEnds waits until an agent serves its socket or has ended, with its error.
func startsOrEnds(t *testing.T, socket string, done <-chan error) (ended bool, err error) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	limit := time.After(3 * time.Minute)
	for {
		select {
		case err := <-done:
			return true, err
		case <-look.C:
			if _, err := os.Lstat(socket); err == nil {
				return false, nil
			}
		case <-limit:
			t.Fatalf("the agent neither serves %s nor ends", socket)
		}
	}
}
