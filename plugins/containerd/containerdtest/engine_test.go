package containerdtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/cri/critest"
)

// TestEngine starts a containerd, runs a container and a pod, kills and
// restarts the daemon, and leaves nothing.
func TestEngine(t *testing.T) {
	var dir string
	t.Run("work", func(t *testing.T) {
		e := Start(t)
		dir = e.Dir
		e.Run("default", "web")
		pid := e.Pid("default", "web")
		sandbox, err := e.RunPod(t.Context(), critest.Pod{})
		if err != nil {
			t.Fatal(err, e.Log())
		}
		main, err := e.RunContainer(t.Context(), sandbox, critest.Pod{}, "main", nil)
		if err != nil {
			t.Fatal(err)
		}
		e.Kill()
		e.Up()
		if now := e.Pid("default", "web"); now != pid {
			t.Errorf("after a restart of containerd the container is process %d, want %d", now, pid)
		}
		if all, err := e.Running(t.Context()); err != nil || !slices.Equal(all, []string{main}) {
			t.Errorf("after a restart CRI has %v, %v", all, err)
		}
	})
	if dir == "" {
		t.Skip("no containerd")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	if mounts, _ := os.ReadFile("/proc/mounts"); strings.Contains(string(mounts), dir) {
		t.Errorf("something is still mounted in %s", dir)
	}
}
