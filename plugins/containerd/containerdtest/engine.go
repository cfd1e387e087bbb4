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
	"time"

	"github.com/plumb-net/plumb/plugins/cri/critest"
)

// readyTimeout bounds the start of a containerd, its stop, and each command.
const readyTimeout = 60 * time.Second

// Engine is a private containerd.
type Engine struct {
	// Client runs pods.
	*critest.Client
	// Socket is the path of its socket.
	Socket string

	t   testing.TB
	dir string
	// keeper is the process that holds the network namespace and, when it or
	// the test ends, clears away the daemon and all its containers.
	keeper *exec.Cmd
	daemon *exec.Cmd
	exited chan struct{}
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
	dir, err := os.MkdirTemp("", "containerdtest-")
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{Socket: filepath.Join(dir, "c.sock"), t: t, dir: dir}
	if e.Client, err = critest.Dial(e.Socket, Image); err != nil {
		t.Fatal(err)
	}
	e.startKeeper()
	e.configure()
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
	e.daemon = exec.Command("nsenter", "--net="+e.NetnsPath(), "containerd", "--config", filepath.Join(e.dir, "config.toml"))
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
	e.eventually("containerd to answer", func() bool {
		select {
		case <-exited:
			e.t.Fatalf("containerd ended while starting:\n%s", e.Log())
		default:
		}
		_, err := e.Try("version")
		return err == nil && e.Ready(context.Background()) == nil
	})
}

// Down stops the daemon in good order, Kill kills it. Either way its
// containers live on under their shims.
func (e *Engine) Down() { e.t.Helper(); e.signalAndWait(syscall.SIGTERM) }

// Kill is Down without a warning.
func (e *Engine) Kill() { e.t.Helper(); e.signalAndWait(syscall.SIGKILL) }

// Freeze halts the daemon, which then accepts connections and says nothing;
// Thaw lets it go on.
func (e *Engine) Freeze() { e.t.Helper(); e.signal(syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (e *Engine) Thaw() { e.t.Helper(); e.signal(syscall.SIGCONT) }

func (e *Engine) signal(s syscall.Signal) {
	e.t.Helper()
	if err := e.daemon.Process.Signal(s); err != nil {
		e.t.Fatalf("containerd: %v: %v", s, err)
	}
}

func (e *Engine) signalAndWait(s syscall.Signal) {
	e.t.Helper()
	e.signal(s)
	select {
	case <-e.exited:
	case <-time.After(readyTimeout):
		e.t.Fatalf("containerd did not end after %v:\n%s", s, e.Log())
	}
}

// Ctr runs containerd's own command in a namespace ("" for none) and returns
// what it prints.
func (e *Engine) Ctr(namespace string, args ...string) string {
	e.t.Helper()
	if namespace != "" {
		args = append([]string{"--namespace", namespace}, args...)
	}
	out, err := e.Try(args...)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

// Try is Ctr for commands that may fail.
func (e *Engine) Try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
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
	e.t.Helper()
	e.RunCommand(namespace, id, options, "sleep", "100000")
}

// RunCommand starts a container with a command.
func (e *Engine) RunCommand(namespace, id string, options []string, command ...string) {
	e.t.Helper()
	e.Import(namespace)
	if err := e.TryRun(namespace, id, options, command...); err != nil {
		e.t.Fatal(err)
	}
}

// TryRun is RunCommand where that may fail, in a namespace that has the image.
func (e *Engine) TryRun(namespace, id string, options []string, command ...string) error {
	args := append([]string{
		"--namespace", namespace, "run", "--detach",
		"--runc-root", filepath.Join(e.dir, "runc"), "--fifo-dir", filepath.Join(e.dir, "fifo"),
	}, options...)
	_, err := e.Try(append(append(args, Image, id), command...)...)
	return err
}

// Remove kills a container and removes it.
func (e *Engine) Remove(namespace, id string) {
	e.t.Helper()
	_, _ = e.Try("--namespace", namespace, "tasks", "delete", "--force", id)
	e.Ctr(namespace, "containers", "delete", id)
}

// Pid is that of a running container's first process.
func (e *Engine) Pid(namespace, id string) int {
	e.t.Helper()
	for line := range strings.Lines(e.Ctr(namespace, "tasks", "list")) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == id {
			pid, err := strconv.Atoi(f[1])
			if err != nil || pid == 0 {
				e.t.Fatalf("container %s: %s", id, line)
			}
			return pid
		}
	}
	e.t.Fatalf("container %s of namespace %s has no task", id, namespace)
	return 0
}

// ShimSocket is the path of the socket of a container's shim.
func (e *Engine) ShimSocket(namespace, id string) string {
	e.t.Helper()
	address, err := os.ReadFile(filepath.Join(e.dir, "state/io.containerd.runtime.v2.task", namespace, id, "address"))
	if err != nil {
		e.t.Fatal(err)
	}
	return strings.TrimPrefix(string(address), "unix://")
}

// NetnsPath leads to the network namespace of the daemon itself.
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
	for end := time.Now().Add(readyTimeout); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			e.t.Fatalf("waited in vain for %s:\n%s", what, e.Log())
		}
	}
}
