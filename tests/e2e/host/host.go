package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/plugins/docker/dockertest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// Options of a host. The zero value is a fresh namespace, the engine that all
// share, an embedded etcd, and an agent built with the race detector.
type Options struct {
	// NoEngine: the agent knows no container runtime.
	NoEngine bool
	// EngineNamespace: the agent manages the namespace that the engine lives
	// in. Such tests must not run in parallel.
	EngineNamespace bool
	// Namespace is the path of the namespace that plays the host; default a fresh one.
	Namespace string
	// Parallel: other hosts use the engine at the same time, so the service
	// labels of this one have an environment variable of their own, and its
	// containers names of their own.
	Parallel bool
	// Fast: an agent without the race detector, for what is timed.
	Fast bool
	// Etcd is an external etcd, as the flag takes it.
	Etcd string
	// Args are further flags of the agent.
	Args []string
	// Env are further environment variables of the agent, as NAME=value.
	Env []string
}

// Host is a host with an agent.
type Host struct {
	// Options may be changed while the agent is stopped.
	Options
	// Label of the agent.
	Label string
	// Dir holds run, state, netns and the log of the agent.
	Dir string
	// Own is the namespace that plays the host.
	Own *netlinktest.Namespace
	// Engine runs the containers; nil with NoEngine.
	Engine *Engine

	t   testing.TB
	bin string
	*running
}

// running is what all copies of a host share.
type running struct {
	agent      *process // nil while it is stopped
	containers []string // that were started, by their name in the engine
}

var hosts atomic.Int64

// New makes a host. The agent does not run yet.
func New(t testing.TB, o Options) *Host {
	t.Helper()
	netlinktest.Root(t)
	n := hosts.Add(1)
	h := &Host{Options: o, Label: fmt.Sprintf("e2e-%d-%d", os.Getpid(), n), t: t, running: &running{}}
	var err error
	if h.Dir, err = os.MkdirTemp("", "e2e-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.removeDir() })
	if !o.NoEngine {
		e := SharedEngine(t)
		h.Engine = &e
	}
	if o.EngineNamespace {
		h.Namespace = h.Engine.NetnsPath()
	}
	if h.Namespace != "" {
		h.Own = namespaceAt(t, h.Namespace)
	} else {
		h.Own = netlinktest.New(t)
		h.Own.IP(t, "link set lo up")
		h.Own.IPv6(t)
	}
	h.bin = tool(t, "plumb-agent")
	if !o.Fast {
		h.bin = raceAgent(t)
	}
	t.Cleanup(h.end)
	return h
}

// With is the same host for a subtest: what fails, fails there.
func (h *Host) With(t testing.TB) *Host {
	c := *h
	c.t = t
	return &c
}

func namespaceAt(t testing.TB, path string) *netlinktest.Namespace {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return &netlinktest.Namespace{Path: path, Inode: st.Sys().(*syscall.Stat_t).Ino}
}

// RunDir is where the agent's sockets are.
func (h *Host) RunDir() string { return filepath.Join(h.Dir, "run") }

// StateDir is where the ledger and the embedded etcd are.
func (h *Host) StateDir() string { return filepath.Join(h.Dir, "state") }

// NetnsDir is where named namespaces are.
func (h *Host) NetnsDir() string { return filepath.Join(h.Dir, "netns") }

// Named is a namespace by its name.
func (h *Host) Named(name string) *netlinktest.Namespace {
	h.t.Helper()
	return namespaceAt(h.t, filepath.Join(h.NetnsDir(), name))
}

// Mount makes a named namespace, as somebody else would.
func (h *Host) Mount(name string) *netlinktest.Namespace {
	h.t.Helper()
	if err := os.MkdirAll(h.NetnsDir(), 0o755); err != nil {
		h.t.Fatal(err)
	}
	n := netlinktest.Mount(h.t, filepath.Join(h.NetnsDir(), name))
	n.IPv6(h.t)
	return n
}

// Unmount ends a named namespace.
func (h *Host) Unmount(name string) {
	h.t.Helper()
	path := filepath.Join(h.NetnsDir(), name)
	if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		h.t.Fatal(err)
	}
}

// labelEnv is the environment variable of service labels.
func (h *Host) labelEnv() string {
	if h.Parallel {
		return "LABEL_" + strings.ReplaceAll(h.Label, "-", "_")
	}
	return "MICROSERVICE_LABEL"
}

// end stops the agent, sees that it can clear away all it made, and removes the
// containers.
func (h *Host) end() {
	if h.agent != nil {
		h.Stop()
	}
	if _, err := os.Stat(h.StateDir()); err == nil {
		h.Cleanup()
	}
	for _, name := range h.containers {
		_, _ = h.Engine.Try("rm", "--force", "--volumes", name)
	}
	log := h.Log()
	if strings.Contains(log, "WARNING: DATA RACE") || panicked(log) {
		h.t.Error("the agent has a data race or has panicked")
	}
	if h.t.Failed() {
		h.t.Logf("log of the agent:\n%s", log)
	}
}

// panicked reports whether the agent has. What the embedded etcd died of is told
// by its part.
func panicked(log string) bool {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "panic: ") && !strings.Contains(line, " part=etcd ") {
			return true
		}
	}
	return false
}

func (h *Host) removeDir() {
	for _, dir := range []string{h.NetnsDir() + "/*", h.NetnsDir()} {
		mounts, _ := filepath.Glob(dir)
		for _, m := range mounts {
			_ = syscall.Unmount(m, syscall.MNT_DETACH)
		}
	}
	_ = os.RemoveAll(h.Dir)
}

// ContainerName is what docker calls a container of this host.
func (h *Host) ContainerName(name string) string {
	if h.Parallel {
		return h.Label + "-" + name
	}
	return name
}

// Run starts a container that sleeps and serves the label of its name, with
// further options of docker run. It has no network but what the agent gives it.
func (h *Host) Run(name string, options ...string) (id string) {
	h.t.Helper()
	return h.RunPlain(name, append([]string{"--env", h.labelEnv() + "=" + name}, options...)...)
}

// RunPlain is Run without a service label.
func (h *Host) RunPlain(name string, options ...string) (id string) {
	h.t.Helper()
	return h.RunCommand(name, options, "sleep", "100000")
}

// RunCommand starts a container with a command of its own.
func (h *Host) RunCommand(name string, options []string, command ...string) (id string) {
	h.t.Helper()
	h.own(name)
	args := []string{"run", "--detach", "--stop-signal", "KILL", "--name", h.ContainerName(name)}
	if !slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "--network") }) {
		args = append(args, "--network", "none")
	}
	return h.Docker(slices.Concat(args, options, []string{dockertest.Image}, command)...)
}

// LabelOption makes docker run give a container a service label.
func (h *Host) LabelOption(label string) string { return "--env=" + h.labelEnv() + "=" + label }

// own removes the container when the test ends.
func (h *Host) own(name string) {
	if name = h.ContainerName(name); !slices.Contains(h.containers, name) {
		h.containers = append(h.containers, name)
	}
}

// Pid is that of a container's first process.
func (h *Host) Pid(name string) int {
	h.t.Helper()
	pid, err := strconv.Atoi(h.Docker("inspect", "--format", "{{.State.Pid}}", h.ContainerName(name)))
	if err != nil || pid == 0 {
		h.t.Fatalf("container %s has no process: %v", name, err)
	}
	return pid
}

// In is the namespace of a running container.
func (h *Host) In(name string) *netlinktest.Namespace {
	h.t.Helper()
	return namespaceAt(h.t, fmt.Sprintf("/proc/%d/ns/net", h.Pid(name)))
}
