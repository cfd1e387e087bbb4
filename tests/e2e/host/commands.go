package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Result is what a command did.
type Result struct {
	Out, Err string
	Code     int
}

// exec runs a command; one that cannot run fails the test.
func (h *Host) exec(path, stdin string, args ...string) Result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	cmd := h.AgentCommand(ctx, args...)
	cmd.Path, cmd.Args[0] = path, path
	return h.run(cmd, stdin)
}

func (h *Host) run(cmd *exec.Cmd, stdin string) Result {
	h.t.Helper()
	var out, story bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &story
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 0) {
		h.t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, story.String())
	}
	return Result{Out: out.String(), Err: story.String(), Code: cmd.ProcessState.ExitCode()}
}

// Ctl runs agentctl.
func (h *Host) Ctl(args ...string) Result { h.t.Helper(); return h.CtlInput("", args...) }

// CtlInput runs agentctl with something on its standard input.
func (h *Host) CtlInput(stdin string, args ...string) Result {
	h.t.Helper()
	return h.exec(tool(h.t, "agentctl"), stdin, append([]string{"--socket", h.Socket()}, args...)...)
}

// CtlFrom runs agentctl without naming a socket, with variables of the environment, each
// NAME=value, that may name an agent.
func (h *Host) CtlFrom(env []string, args ...string) Result {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), tool(h.t, "agentctl"), args...)
	cmd.Env = append(os.Environ(), env...)
	return h.run(cmd, "")
}

// MustCtl runs agentctl, which must succeed, and returns what it prints.
func (h *Host) MustCtl(args ...string) string {
	h.t.Helper()
	r := h.Ctl(args...)
	if r.Code != 0 {
		h.t.Fatalf("agentctl %s: exit %d\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
	return r.Out
}

// Etcdctl runs Debian's etcdctl on the host's etcd and returns what it prints.
func (h *Host) Etcdctl(stdin string, args ...string) string {
	h.t.Helper()
	path, err := exec.LookPath("etcdctl")
	if err != nil {
		if os.Getenv("CI") == "true" {
			h.t.Fatal("etcdctl is missing: apt-get install etcd-client")
		}
		h.t.Skip("etcdctl is missing: apt-get install etcd-client")
	}
	cmd := exec.Command(path, append([]string{"--endpoints=" + h.EtcdEndpoint()}, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	cmd.Stdin = strings.NewReader(stdin)
	var story bytes.Buffer
	cmd.Stderr = &story
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("etcdctl %s: %v\n%s", strings.Join(args, " "), err, story.String())
	}
	return string(out)
}

// EtcdEndpoint is where the host's etcd listens.
func (h *Host) EtcdEndpoint() string {
	if h.Etcd != "" {
		return h.Etcd
	}
	return "unix://" + filepath.Join(h.RunDir(), "etcd.sock")
}

// ConfigKey is where intent is in etcd.
func (h *Host) ConfigKey(key string) string { return "/plumb/" + h.Label + "/config/" + key }

// Put writes intent with etcdctl, byte by byte.
func (h *Host) Put(key, value string) {
	h.t.Helper()
	if value == "" { // on its standard input etcdctl takes nothing for a mistake
		h.Etcdctl("", "put", h.ConfigKey(key), "")
		return
	}
	h.Etcdctl(value, "put", h.ConfigKey(key))
}

// Delete deletes intent with etcdctl.
func (h *Host) Delete(key string) { h.t.Helper(); h.Etcdctl("", "del", h.ConfigKey(key)) }

// Docker runs docker on the host's engine and returns what it prints.
func (h *Host) Docker(args ...string) string {
	h.t.Helper()
	out, err := h.Engine.Try(args...)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// Ping sends one packet from within a container.
func (h *Host) Ping(from, to string) error {
	h.t.Helper()
	if out, err := h.In(from).Try("busybox", "ping", "-c", "1", "-W", "1", to); err != nil {
		return fmt.Errorf("%s does not reach %s: %w\n%s", from, to, err, out)
	}
	return nil
}

// Eventually waits until check finds nothing wrong, for at most [Patience].
func (h *Host) Eventually(what string, check func() error) {
	h.t.Helper()
	h.Within(Patience, what, check)
}

// Within waits until check finds nothing wrong and returns how long it took.
func (h *Host) Within(limit time.Duration, what string, check func() error) time.Duration {
	h.t.Helper()
	began := time.Now()
	for err := check(); err != nil; err = check() {
		if time.Since(began) > limit {
			h.t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began)
}

// CtlCommand is an agentctl to be run by the caller.
func (h *Host) CtlCommand(ctx context.Context, args ...string) *exec.Cmd {
	h.t.Helper()
	cmd := exec.CommandContext(ctx, tool(h.t, "agentctl"), append([]string{"--socket", h.Socket()}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Socket is that of the agent's API.
func (h *Host) Socket() string { return filepath.Join(h.RunDir(), "agent.sock") }

// T is the test that the host, or this copy of it, belongs to.
func (h *Host) T() testing.TB { return h.t }
