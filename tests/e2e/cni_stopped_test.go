package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// A DEL that is done while the agent is stopped stays done when it goes on: the
// interface that plumb-cni removed is not made again, not for a moment, and the rest goes
// at once, although the container's namespace lives on.
func TestDeletedWhileTheAgentWasStopped(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	var containers []string
	for i := range 4 {
		containers = append(containers, fmt.Sprint("c", i))
		h.Mount(containers[i])
	}
	h.Start()
	var made []attached
	for _, c := range containers {
		made = append(made, add(t, h, c, blue))
	}
	births := watchBirths(t, h, containers)

	pid := h.AgentPid()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	for i, c := range containers[1:] {
		if r := call(h, "DEL", c, withResult(blue, made[i+1])); r.Code != 0 {
			t.Errorf("DEL %s: exit %d\n%s%s", c, r.Code, r.Out, r.Err)
		}
		if names := h.Named(c).Names(t); slices.Contains(names, "eth0") {
			t.Errorf("%s has %v after its DEL", c, names)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	h.Within(host.Patience, "what was left is done", func() error {
		if left, err := filepath.Glob(filepath.Join(h.RunDir(), "cni-queue", "*")); err != nil || len(left) > 0 {
			return fmt.Errorf("%v, %w", left, err)
		}
		for _, c := range h.Keys() {
			if c.State != "configured" && c.State != "observed" {
				return fmt.Errorf("%s is %s", c.Key, c.State)
			}
		}
		return nil
	})
	h.AwaitSettled()
	if again := births(); len(again) > 0 {
		t.Errorf("made again: %v", again)
	}
	if err := ping(h.Named("c0"), made[0].IPs[0].Gateway); err != nil {
		t.Error(err)
	}
	// Their addresses are free again, and they can be attached again.
	for _, c := range containers[1:] {
		add(t, h, c, blue)
	}
}

// watchBirths tells which links came to be in the namespaces of containers since.
func watchBirths(t *testing.T, h *host.Host, containers []string) func() []string {
	t.Helper()
	k, err := netlink.New(netlink.Options{NamedDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	names := map[kernel.NS]string{}
	for _, c := range containers {
		ns, err := k.Open(filepath.Join(h.NetnsDir(), c))
		if err != nil {
			t.Fatal(err)
		}
		names[ns] = c
	}
	var mu sync.Mutex
	var births []string
	gone := map[kernel.NS]bool{}
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- k.Watch(ctx, func(ev kernel.Event) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ev.Ready:
				close(ready)
			case ev.Lost:
				births = append(births, "events were lost")
			case ev.Link == nil || names[ev.NS] == "" || ev.Link.Name == "lo":
			case ev.Deleted:
				gone[ev.NS] = true
			case gone[ev.NS]:
				births = append(births, ev.Link.Name+" in "+names[ev.NS])
			}
		})
	}()
	<-ready
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, k.Close()); err != nil {
			t.Error(err)
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(births)
	}
}
