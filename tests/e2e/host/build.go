package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The binaries are built once per test binary, from the module's own source.
// PLUMB_E2E_BIN names a directory with ready ones: plumb-agent, agentctl, and
// race/plumb-agent.
var builds struct {
	once, race sync.Once
	dir        string
}

// tool is the path of a binary, built without the race detector, and otherwise as make build
// does it, so that nothing is compiled twice.
func tool(t testing.TB, name string) string {
	t.Helper()
	shared.run(t, func() {
		builds.once.Do(func() {
			build(binDir(), []string{"CGO_ENABLED=0"}, "build", "-trimpath", "-o", binDir()+"/", module+"/cmd/...")
		})
	})
	return filepath.Join(builds.dir, name)
}

// Program is the path of one of our programs, built without the race detector.
func Program(t testing.TB, name string) string { t.Helper(); return tool(t, name) }

// raceAgent is the path of an agent built with the race detector.
func raceAgent(t testing.TB) string {
	t.Helper()
	tool(t, "plumb-agent")
	dir := filepath.Join(builds.dir, "race")
	shared.run(t, func() {
		builds.race.Do(func() {
			build(dir, []string{"CGO_ENABLED=1"}, "build", "-race", "-o", dir+"/", module+"/cmd/plumb-agent")
		})
	})
	return filepath.Join(dir, "plumb-agent")
}

const module = "github.com/plumb-net/plumb"

func binDir() string {
	if builds.dir == "" {
		builds.dir = os.Getenv("PLUMB_E2E_BIN")
	}
	if builds.dir == "" {
		builds.dir = shared.TempDir()
	}
	return builds.dir
}

func build(dir string, env []string, args ...string) {
	if os.Getenv("PLUMB_E2E_BIN") != "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		shared.Fatal(err)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		shared.Fatalf("go %v: %v\n%s", args, err, out)
	}
}
