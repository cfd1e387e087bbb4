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

// TestFullDisk: while the state directory cannot be written containers can be removed;
// DEL and status say what is wrong, nothing new is begun. What was removed is not made
// again by the next start, and once there is room all is well.
func TestFullDisk(t *testing.T) {
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
	ballast := fill(t, h.StateDir())

	if r := call(h, "ADD", "c3", blue); r.Code == 0 || !strings.Contains(r.Out, "no space left on device") {
		t.Errorf("ADD: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if r := call(h, "DEL", "c1", blue); r.Code != 0 || !strings.Contains(r.Err, "no space left on device") {
		t.Errorf("DEL: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if names := h.Named("c1").Names(t); len(names) > 0 {
		t.Errorf("left in c1: %v", names)
	}
	if out := h.Ctl("status").Out; !strings.Contains(out, "not ready") || !strings.Contains(out, "no space left on device") {
		t.Errorf("status:\n%s", out)
	}

	// The next start knows nothing of the DEL but by the note that was left.
	h.Stop()
	h.Launch()
	h.Eventually("it says that it cannot write", func() error {
		if out := h.Ctl("status").Out; !strings.Contains(out, "no space left on device") {
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

	if err := os.Remove(ballast); err != nil {
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
