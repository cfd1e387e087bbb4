package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// Patience is how long everything may take that has no bound of its own.
	Patience = 2 * time.Minute
	// StopLimit is how long an agent may take to stop.
	StopLimit = 5 * time.Second
)

// process is a running agent.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
	err  error         // of Wait, once gone
}

// AgentArgs are the flags that the agent is started with.
func (h *Host) AgentArgs() []string {
	args := []string{
		"--label", h.Label, "--run-dir", h.RunDir(), "--state-dir", h.StateDir(),
		"--netns", h.Own.Path, "--netns-dir", h.NetnsDir(), "--microservice-env", h.labelEnv(),
		"--containerd", "off", "--cri", "off",
	}
	if h.Etcd != "" {
		args = append(args, "--etcd", h.Etcd)
	}
	if h.NoEngine {
		args = append(args, "--docker", "off")
	} else {
		args = append(args, "--docker", h.Engine.Host)
	}
	return append(args, h.Args...)
}

// AgentCommand is plumb-agent with further arguments, in the host's environment.
func (h *Host) AgentCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.bin, args...)
	// The race detector would wait for a second at the end.
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), h.Env...)
	// A test that is killed stops nothing itself. The agent has a session of its own,
	// as under a service manager: Linux shares processor time between sessions first
	// (sched(7), autogroup), and many containers that start would leave it none.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Launch starts the agent and does not wait for it.
func (h *Host) Launch() {
	h.t.Helper()
	if h.agent != nil {
		h.t.Fatal("the agent runs already")
	}
	log, err := os.OpenFile(h.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	p := &process{cmd: h.AgentCommand(context.Background(), h.AgentArgs()...), gone: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.gone)
	}()
	h.agent = p
}

// Start starts the agent and waits until it is ready.
func (h *Host) Start() {
	h.t.Helper()
	h.Launch()
	h.AwaitReady()
}

// AwaitReady waits until the agent has heard every source and runtime.
func (h *Host) AwaitReady() {
	h.t.Helper()
	agent := h.agent
	h.Eventually("the agent is ready", func() error {
		select {
		case <-agent.gone:
			h.t.Fatalf("the agent has ended: %v", agent.err)
		default:
		}
		_, err := h.HTTP("/readyz")
		return err
	})
}

// Running reports whether the agent's process is there.
func (h *Host) Running() bool {
	if h.agent == nil {
		return false
	}
	select {
	case <-h.agent.gone:
		return false
	default:
		return true
	}
}

// AgentPid is the process id of the agent.
func (h *Host) AgentPid() int { return h.agent.cmd.Process.Pid }

// Stop ends the agent in good order and returns how long it took.
func (h *Host) Stop() time.Duration {
	h.t.Helper()
	began := time.Now()
	err := h.signal(syscall.SIGTERM, StopLimit)
	if err != nil {
		h.t.Errorf("the agent, told to stop: %v", err)
	}
	return time.Since(began)
}

// Kill9 ends the agent as a crash would.
func (h *Host) Kill9() {
	h.t.Helper()
	var exit *exec.ExitError
	if err := h.signal(syscall.SIGKILL, Patience); err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
}

// AwaitEnd waits until the agent ends by itself, by a failpoint for one.
func (h *Host) AwaitEnd(limit time.Duration) bool {
	select {
	case <-h.agent.gone:
		h.agent = nil
		return true
	case <-time.After(limit):
		return false
	}
}

func (h *Host) signal(s syscall.Signal, limit time.Duration) error {
	p := h.agent
	h.agent = nil
	if p == nil {
		return errors.New("it does not run")
	}
	_ = p.cmd.Process.Signal(s)
	select {
	case <-p.gone:
		return p.err
	case <-time.After(limit):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its stacks go to the log
		select {
		case <-p.gone:
		case <-time.After(StopLimit):
			_ = p.cmd.Process.Kill()
			<-p.gone
		}
		return fmt.Errorf("it did not end within %v", limit)
	}
}

// Once runs `plumb-agent --once`.
func (h *Host) Once() Result {
	h.t.Helper()
	return h.exec(h.bin, "", append(h.AgentArgs(), "--once")...)
}

// Cleanup runs `plumb-agent cleanup` and sees that nothing of ours is left.
func (h *Host) Cleanup() Result {
	h.t.Helper()
	r := h.exec(h.bin, "", append([]string{"cleanup"}, h.AgentArgs()...)...)
	if r.Code != 0 {
		h.t.Errorf("cleanup: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	for _, left := range h.Marked() {
		h.t.Errorf("after cleanup there still is %s; it said\n%s%s", left, r.Out, r.Err)
	}
	return r
}

// Log is what the agent has logged.
func (h *Host) Log() string {
	data, _ := os.ReadFile(h.logFile())
	return string(data)
}

func (h *Host) logFile() string { return filepath.Join(h.Dir, "agent.log") }

// HTTP gets a page from the agent's socket.
func (h *Host) HTTP(page string) (string, error) {
	socket := h.Socket()
	c := http.Client{Timeout: StopLimit, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	r, err := c.Get("http://agent" + page)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", page, r.Status, strings.TrimSpace(string(body)))
	}
	return string(body), err
}
