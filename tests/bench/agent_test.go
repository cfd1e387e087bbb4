package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/agent"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

const label = "bench"

// asAgent makes the test binary an agent.
const asAgent = "PLUMB_BENCH_AGENT"

func TestMain(m *testing.M) {
	agent.Main()
	be := beAgent
	switch {
	case os.Getenv(fleetOf) != "":
		be = beFleet
	case os.Getenv(asAgent) == "":
		os.Exit(m.Run())
	}
	if err := be(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func beAgent() error {
	agent.SpareMemory()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // it ends with the benchmark, however that ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	c, err := agent.Load("", os.LookupEnv, nil)
	if err != nil {
		return err
	}
	if path := os.Getenv("PLUMB_BENCH_PROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	c.LogLevel = "warn"
	return agent.Run(ctx, c, slog.NewTextHandler(os.Stderr, nil))
}

// host is a namespace with an agent and its store.
type host struct {
	*netlinktest.Namespace
	b   testing.TB
	dir string
	pid int // of the agent
	// stop ends the agent and waits until it is gone.
	stop func()
	// peers is a namespace for the far ends, known to the agent by this name.
	peers *netlinktest.Namespace
	etcd  *clientv3.Client
	api   *client.Client
}

func newHost(b testing.TB) *host {
	b.Helper()
	netlinktest.Root(b)
	dir, err := os.MkdirTemp("", "pb-") // short: sockets have short paths
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	named := filepath.Join(dir, "netns")
	if err := os.Mkdir(named, 0o755); err != nil {
		b.Fatal(err)
	}
	h := &host{b: b, dir: dir, Namespace: netlinktest.New(b), peers: netlinktest.Mount(b, filepath.Join(named, "peers"))}
	h.start()
	h.api = client.New(filepath.Join(dir, "run", "agent.sock"))
	b.Cleanup(h.api.Close)
	h.ready()
	h.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(dir, "run", "etcd.sock")}, Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { h.etcd.Close() })
	return h
}

// start runs the agent until the benchmark ends.
func (h *host) start() {
	self, err := os.Executable()
	if err != nil {
		h.b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asAgent+"=1", "PLUMB_LABEL="+label, "PLUMB_DOCKER=off", "PLUMB_CONTAINERD=off", "PLUMB_CRI=off",
		"PLUMB_RUN_DIR="+filepath.Join(h.dir, "run"), "PLUMB_STATE_DIR="+filepath.Join(h.dir, "state"),
		"PLUMB_NETNS="+h.Path, "PLUMB_NETNS_DIR="+filepath.Join(h.dir, "netns"),
		"PLUMB_POLICY=* deletions=off") // a round takes away all that it made
	if _, err := cmd.StdinPipe(); err != nil {
		h.b.Fatal(err)
	}
	story, err := cmd.StderrPipe()
	if err != nil {
		h.b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.b.Fatal(err)
	}
	h.pid = cmd.Process.Pid
	told := make(chan struct{})
	go func() {
		defer close(told)
		for s := bufio.NewScanner(story); s.Scan(); {
			fmt.Fprintln(os.Stderr, "agent:", s.Text())
		}
		_, _ = io.Copy(io.Discard, story)
	}()
	h.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-told
		if err := cmd.Wait(); err != nil {
			h.b.Errorf("the agent: %v", err)
		}
	})
	h.b.Cleanup(h.stop)
}

func (h *host) ready() {
	h.b.Helper()
	netlinktest.Eventually(h.b, "the agent is ready", func() bool {
		status, _, err := h.api.Page(context.Background(), "/readyz")
		return err == nil && status == 200
	})
}

// write makes one transaction of intent and returns when it began and ended.
func (h *host) write(ops ...clientv3.Op) (begin, end time.Time) {
	h.b.Helper()
	begin = time.Now()
	if _, err := h.etcd.Txn(context.Background()).Then(ops...).Commit(); err != nil {
		h.b.Fatal(err)
	}
	return begin, time.Now()
}

func config(key string) string { return "/plumb/" + label + "/config/" + key }

func put(key, value string) clientv3.Op { return clientv3.OpPut(config(key), value) }

// follow waits until all keys under a prefix are in a state, as told by the
// agent to who asks for states alone, as `agentctl apply --wait` and `agentctl wait` do. It
// returns once the agent tells: what happens later is not missed.
func (h *host) follow(prefix string, count int, in string) (end func() time.Time) {
	h.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	stream, err := h.api.Watch(ctx, &apiv1.WatchRequest{Targets: []string{"interface/"}, NoValues: true})
	if err != nil {
		h.b.Fatal(err)
	}
	for {
		if !stream.Receive() {
			h.b.Fatal(stream.Err())
		}
		if stream.Msg().InSync {
			break
		}
	}
	return func() time.Time {
		defer cancel()
		defer stream.Close()
		there := map[string]bool{}
		for len(there) < count {
			if !stream.Receive() {
				h.b.Fatalf("%d of %d keys are %s: %v", len(there), count, in, stream.Err())
			}
			for _, c := range stream.Msg().Changes {
				if strings.HasPrefix(c.Key, prefix) && c.State == in && !c.Busy {
					there[c.Key] = true
				}
			}
		}
		return time.Now()
	}
}
