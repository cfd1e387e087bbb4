package events

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// smallDisk is a file system of 256 KiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("to mount a small disk this test must be root")
		}
		t.Skip("to mount a small disk this test must be root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk takes all room of a disk and returns how to give it back.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// A disk that is full from the start, and one that becomes full: the events are
// in memory, that is said once, and when there is room all are written.
func TestAFullDisk(t *testing.T) {
	for _, fromTheStart := range []bool{true, false} {
		dir := smallDisk(t)
		var free func()
		if fromTheStart {
			free = fillDisk(t, dir)
		}
		var said said
		f, _, next, err := Open(dir, 1<<20, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		l := New(Limits{}, nil, next)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- f.Run(ctx, l, 0) }()
		l.Add(some(0))
		if !fromTheStart {
			eventually(t, "it is written", func() bool { _, err := os.Stat(filepath.Join(dir, "events")); return err == nil })
			free = fillDisk(t, dir)
		}
		for i := range 50 {
			e := some(i)
			e.Image = strings.Repeat("x", 500)
			l.Add(e)
		}
		eventually(t, "the disk is full", func() bool { return f.Err() != nil })
		time.Sleep(3 * pace) // it is tried again
		if n := strings.Count(said.String(), "\n"); n != 1 || !strings.Contains(said.String(), "no space left on device") {
			t.Errorf("it said\n%s", said.String())
		}
		free()
		l.Add(some(51))
		eventually(t, "it is written again", func() bool { return f.Err() == nil })
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, earlier, _ := load(t, dir); len(earlier) != 52 {
			t.Errorf("%d events of 52 are in the file: %v", len(earlier), seqs(earlier))
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// said is a log.
type said struct {
	mu   sync.Mutex // guards what follows
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
