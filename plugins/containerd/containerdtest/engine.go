package containerdtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/plugins/container/daemontest"
	"github.com/plumb-net/plumb/plugins/cri/critest"
)

// Engine is a private containerd.
type Engine struct {
	*daemontest.Daemon
	// Client runs pods.
	*critest.Client
	// Socket is the path of its socket.
	Socket string
}

// Start starts a containerd and stops it when the test ends. Where none can
// run the test is skipped, or fails if CI=true is set.
func Start(t testing.TB) *Engine {
	t.Helper()
	e := New(t)
	e.Up()
	e.ImportImage()
	return e
}

// New is Start without the start: Up starts the daemon, without Image.
func New(t testing.TB) *Engine {
	t.Helper()
	require(t)
	d := daemontest.New(t, "containerdtest", clearScript)
	e := &Engine{Daemon: d, Socket: filepath.Join(d.Dir, "c.sock")}
	var err error
	if e.Client, err = critest.Dial(e.Socket, Image); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	e.configure()
	return e
}

// Up starts the daemon and waits until it answers.
func (e *Engine) Up() {
	e.T.Helper()
	e.Launch(func() bool {
		_, err := e.Try("version")
		return err == nil && e.Ready(context.Background()) == nil
	}, "containerd", "--config", filepath.Join(e.Dir, "config.toml"))
}

// Down stops the daemon in good order, Kill kills it. Either way its
// containers live on under their shims.
func (e *Engine) Down() { e.T.Helper(); e.End(syscall.SIGTERM) }

// Kill is Down without a warning.
func (e *Engine) Kill() { e.T.Helper(); e.End(syscall.SIGKILL) }

// Ctr runs containerd's own command in a namespace ("" for none) and returns
// what it prints.
func (e *Engine) Ctr(namespace string, args ...string) string {
	e.T.Helper()
	if namespace != "" {
		args = append([]string{"--namespace", namespace}, args...)
	}
	out, err := e.Try(args...)
	if err != nil {
		e.T.Fatal(err)
	}
	return out
}

// Try is Ctr for commands that may fail.
func (e *Engine) Try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), daemontest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", e.Socket}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), err
}

// Run starts a container that sleeps, with options of ctr run.
func (e *Engine) Run(namespace, id string, options ...string) {
	e.T.Helper()
	e.RunCommand(namespace, id, options, "sleep", "100000")
}

// RunCommand starts a container with a command.
func (e *Engine) RunCommand(namespace, id string, options []string, command ...string) {
	e.T.Helper()
	e.Import(namespace)
	if err := e.TryRun(namespace, id, options, command...); err != nil {
		e.T.Fatal(err)
	}
}

// TryRun is RunCommand where that may fail, in a namespace that has the image.
func (e *Engine) TryRun(namespace, id string, options []string, command ...string) error {
	args := append([]string{
		"--namespace", namespace, "run", "--detach",
		"--runc-root", filepath.Join(e.Dir, "runc"), "--fifo-dir", filepath.Join(e.Dir, "fifo"),
	}, options...)
	_, err := e.Try(append(append(args, Image, id), command...)...)
	return err
}

// Remove kills a container and removes it.
func (e *Engine) Remove(namespace, id string) {
	e.T.Helper()
	_, _ = e.Try("--namespace", namespace, "tasks", "delete", "--force", id)
	e.Ctr(namespace, "containers", "delete", id)
}

// Pid is that of a running container's first process.
func (e *Engine) Pid(namespace, id string) int {
	e.T.Helper()
	for line := range strings.Lines(e.Ctr(namespace, "tasks", "list")) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == id {
			pid, err := strconv.Atoi(f[1])
			if err != nil || pid == 0 {
				e.T.Fatalf("container %s: %s", id, line)
			}
			return pid
		}
	}
	e.T.Fatalf("container %s of namespace %s has no task", id, namespace)
	return 0
}

// ShimSocket is the path of the socket of a container's shim.
func (e *Engine) ShimSocket(namespace, id string) string {
	e.T.Helper()
	address, err := os.ReadFile(filepath.Join(e.Dir, "state/io.containerd.runtime.v2.task", namespace, id, "address"))
	if err != nil {
		e.T.Fatal(err)
	}
	return strings.TrimPrefix(string(address), "unix://")
}
