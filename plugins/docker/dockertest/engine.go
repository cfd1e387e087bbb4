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
	"time"
)

// Image is in every engine: busybox, as /bin/sh and the usual commands.
const Image = "plumb-test:1"

// readyTimeout bounds the start of an engine and its stop.
const readyTimeout = 60 * time.Second

// Engine is a private Docker Engine.
type Engine struct {
	// Socket is the path of its API socket, Host the same as a URL.
	Socket string
	Host   string

	t    testing.TB
	dir  string
	args []string
	// keeper is the process that holds the network namespace and, when it or
	// the test ends, clears away the engine and all its containers.
	keeper *exec.Cmd
	daemon *exec.Cmd
	exited chan struct{}
}

// Start starts an engine, with further arguments for dockerd, and stops it
// when the test ends. Where no engine can run the test is skipped, or fails if
// CI=true is set.
func Start(t testing.TB, args ...string) *Engine {
	t.Helper()
	require(t)
	dir, err := os.MkdirTemp("", "dockertest-")
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{
		Socket: filepath.Join(dir, "docker.sock"), Host: "unix://" + filepath.Join(dir, "docker.sock"),
		t: t, dir: dir, args: args,
	}
	e.startKeeper()
	e.Up()
	e.importImage()
	return e
}

// Up starts the daemon and waits until it answers.
func (e *Engine) Up() {
	e.t.Helper()
	log, err := os.OpenFile(e.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	args := append([]string{
		"--net=/proc/" + strconv.Itoa(e.keeper.Process.Pid) + "/ns/net", "dockerd",
		"--data-root", filepath.Join(e.dir, "root"), "--exec-root", filepath.Join(e.dir, "exec"),
		"--host", e.Host, "--pidfile", filepath.Join(e.dir, "dockerd.pid"),
		"--shutdown-timeout", "1",
	}, e.args...)
	e.daemon = exec.Command("nsenter", args...)
	e.daemon.Stdout, e.daemon.Stderr = log, log
	// A signal to the group of the test is not meant for the daemon.
	e.daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.daemon.Start(); err != nil {
		e.t.Fatal(err)
	}
	exited := make(chan struct{})
	e.exited = exited
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(exited)
	}(e.daemon)
	e.awaitAnswer()
}

func (e *Engine) awaitAnswer() {
	e.t.Helper()
	e.eventually("the engine to answer", func() bool {
		select {
		case <-e.exited:
			e.t.Fatalf("dockerd ended while starting:\n%s", e.Log())
		default:
		}
		_, err := e.Try("version", "--format", "{{.Server.Version}}")
		return err == nil
	})
}

// Down stops the daemon in good order: unless it was started with
// --live-restore, its containers stop as well.
func (e *Engine) Down() { e.t.Helper(); e.signalAndWait(syscall.SIGTERM) }

// Kill kills the daemon; its containers live on.
func (e *Engine) Kill() {
	e.t.Helper()
	file := filepath.Join(e.dir, "exec/containerd/containerd.pid")
	pid, _ := os.ReadFile(file)
	e.signalAndWait(syscall.SIGKILL)
	// The daemon's containerd dies with it, but a moment later, and where the
	// first process of the machine does not reap it stays as a zombie. A new
	// daemon would take it for alive and wait for it in vain.
	e.eventually("containerd to end", func() bool { return !lives(strings.TrimSpace(string(pid))) })
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		e.t.Fatal(err)
	}
}

// lives tells whether a process runs; one that waits to be reaped does not.
func lives(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	_, after, _ := strings.Cut(string(data), ") ")
	return err == nil && !strings.HasPrefix(after, "Z")
}

// Restart is Down and Up.
func (e *Engine) Restart() { e.t.Helper(); e.Down(); e.Up() }

// Freeze halts the daemon, which then accepts connections and says nothing;
// Thaw lets it go on.
func (e *Engine) Freeze() { e.t.Helper(); e.signal(syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (e *Engine) Thaw() { e.t.Helper(); e.signal(syscall.SIGCONT) }

func (e *Engine) signal(s syscall.Signal) {
	e.t.Helper()
	if err := e.daemon.Process.Signal(s); err != nil {
		e.t.Fatalf("dockerd: %v: %v", s, err)
	}
}

func (e *Engine) signalAndWait(s syscall.Signal) {
	e.t.Helper()
	e.signal(s)
	select {
	case <-e.exited:
	case <-time.After(readyTimeout):
		e.t.Fatalf("dockerd did not end after %v:\n%s", s, e.Log())
	}
	e.daemon = nil
}

// Docker runs the docker command on this engine and returns what it prints.
func (e *Engine) Docker(args ...string) string {
	e.t.Helper()
	out, err := e.Try(args...)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

// Try is Docker for commands that may fail.
func (e *Engine) Try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
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
	e.t.Helper()
	args := append([]string{"run", "--detach", "--stop-signal", "KILL"}, options...)
	return e.Docker(append(args, Image, "sleep", "100000")...)
}

// Pid is that of a running container's first process.
func (e *Engine) Pid(container string) int {
	e.t.Helper()
	pid, err := strconv.Atoi(e.Docker("inspect", "--format", "{{.State.Pid}}", container))
	if err != nil || pid == 0 {
		e.t.Fatalf("container %s has no process: %v", container, err)
	}
	return pid
}

// NetnsPath leads to the network namespace of the engine itself.
func (e *Engine) NetnsPath() string {
	return "/proc/" + strconv.Itoa(e.keeper.Process.Pid) + "/ns/net"
}

// Log is what the daemon has logged.
func (e *Engine) Log() string {
	data, _ := os.ReadFile(e.logFile())
	return string(data)
}

func (e *Engine) logFile() string { return filepath.Join(e.dir, "log") }

// eventually waits until done is true.
func (e *Engine) eventually(what string, done func() bool) {
	e.t.Helper()
	for end := time.Now().Add(readyTimeout); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			e.t.Fatalf("waited in vain for %s:\n%s", what, e.Log())
		}
	}
}
