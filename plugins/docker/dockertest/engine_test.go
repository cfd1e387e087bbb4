package dockertest

import (
	"os"
	"testing"
)

// TestEngine starts an engine, runs a container, and leaves nothing.
func TestEngine(t *testing.T) {
	var dir string
	t.Run("work", func(t *testing.T) {
		e := Start(t)
		dir = e.Dir
		id := e.Run("--name", "web")
		if pid := e.Pid("web"); pid <= 1 {
			t.Errorf("pid %d", pid)
		}
		e.Kill()
		e.Up()
		if got := e.Docker("inspect", "--format", "{{.Id}}", "web"); got != id {
			t.Errorf("after a restart of the engine the container is %s, want %s", got, id)
		}
	})
	if dir == "" {
		t.Skip("no engine")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}
