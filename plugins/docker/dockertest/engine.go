package dockertest

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
)

// Image is in every engine: busybox, as /bin/sh and the usual commands.
const Image = "plumb-test:1"

// Engine is a private Docker Engine.
type Engine struct {
	*daemontest.Daemon
	// Socket is the path of its API socket, Host the same as a URL.
	Socket string
	Host   string

	args []string
}

// Start starts an engine, with further arguments for dockerd, and stops it
// when the test ends. Where no engine can run the test is skipped, or fails if
// CI=true is set.
func Start(t testing.TB, args ...string) *Engine {
	t.Helper()
	require(t)
	d := daemontest.New(t, "dockertest", clearScript)
	socket := filepath.Join(d.Dir, "docker.sock")
	e := &Engine{Daemon: d, Socket: socket, Host: "unix://" + socket, args: args}
	e.Up()
	e.importImage()
	return e
}

// Up starts the daemon and waits until it answers.
func (e *Engine) Up() {
	e.T.Helper()
	answers := func() bool {
		_, err := e.Try("version", "--format", "{{.Server.Version}}")
		return err == nil
	}
	e.Launch(answers, append([]string{
		"dockerd",
		"--data-root", filepath.Join(e.Dir, "root"), "--exec-root", filepath.Join(e.Dir, "exec"),
		"--host", e.Host, "--pidfile", filepath.Join(e.Dir, "dockerd.pid"),
		"--shutdown-timeout", "1",
	}, e.args...)...)
}

// Down stops the daemon in good order: unless it was started with
// --live-restore, its containers stop as well.
func (e *Engine) Down() { e.T.Helper(); e.End(syscall.SIGTERM) }

// Kill kills the daemon; its containers live on.
func (e *Engine) Kill() {
	e.T.Helper()
	file := filepath.Join(e.Dir, "exec/containerd/containerd.pid")
	pid, _ := os.ReadFile(file)
	e.End(syscall.SIGKILL)
	// The daemon's containerd dies with it, but a moment later, and where the
	// first process of the machine does not reap it stays as a zombie. A new
	// daemon would take it for alive and wait for it in vain.
	e.Eventually("containerd to end", func() bool { return !lives(strings.TrimSpace(string(pid))) })
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		e.T.Fatal(err)
	}
}

// lives reports whether a process runs; one that waits to be reaped does not.
func lives(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	_, after, _ := strings.Cut(string(data), ") ")
	return err == nil && !strings.HasPrefix(after, "Z")
}

// Restart is Down and Up.
func (e *Engine) Restart() { e.T.Helper(); e.Down(); e.Up() }

// Docker runs the docker command on this engine and returns what it prints.
func (e *Engine) Docker(args ...string) string {
	e.T.Helper()
	out, err := e.Try(args...)
	if err != nil {
		e.T.Fatal(err)
	}
	return out
}

// Try is Docker for commands that may fail.
func (e *Engine) Try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), daemontest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.Host)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), err
}

// Run starts a container that sleeps, with options of docker run, and returns
// its id. It stops at once: the first process of a container is deaf to the
// usual signal, and the engine would wait ten seconds.
func (e *Engine) Run(options ...string) string {
	e.T.Helper()
	args := append([]string{"run", "--detach", "--stop-signal", "KILL"}, options...)
	return e.Docker(append(args, Image, "sleep", "100000")...)
}

// Pid is that of a running container's first process.
func (e *Engine) Pid(container string) int {
	e.T.Helper()
	pid, err := strconv.Atoi(e.Docker("inspect", "--format", "{{.State.Pid}}", container))
	if err != nil || pid == 0 {
		e.T.Fatalf("container %s has no process: %v", container, err)
	}
	return pid
}
