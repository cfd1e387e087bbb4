package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestUnwritableState: while the disk of the state directory is full, or its file system is mounted
// read-only, containers can be detached. DEL and status name the error, and nothing new is made. The
// next start does not attach a detached container again. Once the directory is writable, everything
// works.
func TestUnwritableState(t *testing.T) {
	t.Parallel()
	remount := func(t *testing.T, dir string, flags uintptr) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=1m"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, says string
		spoil      func(t *testing.T, h *host.Host) (mend func() error)
	}{
		{"full", "no space left on device", func(t *testing.T, h *host.Host) func() error {
			ballast := fill(t, h.StateDir())
			return func() error { return os.Remove(ballast) }
		}},
		{"read-only", "read-only file system", func(t *testing.T, h *host.Host) func() error {
			h.Stop() // which has files open for writing
			remount(t, h.StateDir(), syscall.MS_RDONLY)
			h.Launch()
			return func() error { remount(t, h.StateDir(), 0); return nil }
		}},
	} {
		t.Run(c.name, func(t *testing.T) { unwritable(t, c.says, c.spoil) })
	}
}

func unwritable(t *testing.T, says string, spoil func(*testing.T, *host.Host) (mend func() error)) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true, Etcd: etcdtest.Start(t).URL()})
	for _, c := range []string{"c1", "c2", "c3"} {
		h.Mount(c)
	}
	if err := os.MkdirAll(h.StateDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", h.StateDir(), "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(h.StateDir(), syscall.MNT_DETACH) })
	empty := h.Exact()
	h.Start()
	add(t, h, "c1", blue)
	add(t, h, "c2", blue)
	mend := spoil(t, h)

	if r := call(h, "ADD", "c3", blue); r.Code == 0 || !strings.Contains(r.Out, says) {
		t.Errorf("ADD: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if r := call(h, "DEL", "c1", blue); r.Code != 0 || !strings.Contains(r.Err, says) {
		t.Errorf("DEL: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if names := h.Named("c1").Names(t); len(names) > 0 {
		t.Errorf("left in c1: %v", names)
	}
	if out := h.Ctl("status").Out; !strings.Contains(out, "not ready") || !strings.Contains(out, says) {
		t.Errorf("status:\n%s", out)
	}

	// The next start knows nothing of the DEL but by the note that was left.
	h.Stop()
	h.Launch()
	h.Eventually("it says that it cannot write", func() error {
		if out := h.Ctl("status").Out; !strings.Contains(out, says) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	h.Eventually("what was removed is gone", func() error {
		if names := h.Named("c1").Names(t); len(names) > 0 {
			return fmt.Errorf("left in c1: %v", names)
		}
		return nil
	})
	if r := call(h, "DEL", "c2", blue); r.Code != 0 {
		t.Errorf("DEL: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}

	if err := mend(); err != nil {
		t.Fatal(err)
	}
	add(t, h, "c3", blue)
	h.AwaitReady()
	if r := call(h, "DEL", "c3", blue); r.Code != 0 || r.Err != "" {
		t.Errorf("DEL: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	h.Stop()
	h.Start()
	if diff := host.Diff(empty, h.Exact()); diff != "" {
		t.Errorf("left:\n%s", diff)
	}
}

// fill writes until nothing more fits into a directory.
func fill(t *testing.T, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	return ballast
}
