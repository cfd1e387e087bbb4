package cni_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// While the DEL of a container waits nothing is made for it, and only for it.
func TestNothingIsMadeForWhoIsLeaving(t *testing.T) {
	run := t.TempDir()
	store, _ := cni.OpenStore(&kernel.MemLedger{})
	for _, a := range []cni.Attachment{
		{Key: cni.Key{Network: "blue", ContainerID: "one", IfName: "eth0"}, Wants: []string{"interface/one", "interface/br"}, Since: 100},
		{Key: cni.Key{Network: "blue", ContainerID: "two", IfName: "eth0"}, Wants: []string{"interface/two", "interface/br"}, Since: 100},
		{Key: cni.Key{Network: "blue", ContainerID: "pod", IfName: "eth0"}, Pod: "default/web", Since: 100},
	} {
		must(t, store.Begin(a))
	}
	inPod := func(host string) *models.Interface {
		return &models.Interface{HostName: host, Namespace: &models.Namespace{In: &models.Namespace_Pod{Pod: "default/web"}}}
	}
	q := cni.Queue{Dir: run}
	left := func() (all string) {
		for _, key := range []string{"interface/one", "interface/two", "interface/br", "interface/other"} {
			if err := q.Leaving(store, key, nil); errors.Is(err, cni.ErrLeaving) {
				all += " " + key
			} else if err != nil {
				t.Error(err)
			}
		}
		for _, host := range []string{"eth0", "eth1"} {
			if errors.Is(q.Leaving(store, "interface/x", inPod(host)), cni.ErrLeaving) {
				all += " " + host
			}
		}
		return all
	}
	leave := func(container string, at int64) {
		r := request("DEL", container)
		r.Protocol, r.Queued = 0, at
		must(t, wire.Leave(run, r))
	}
	for _, step := range []struct {
		container string
		at        int64
		want      string
	}{
		{"", 0, ""},
		{"one", 99, ""}, // it was attached again since
		{"one", 200, " interface/one"},
		{"pod", 200, " interface/one eth0"},
		{"two", 200, " interface/one interface/two interface/br eth0"},
	} {
		if step.container != "" {
			leave(step.container, step.at)
		}
		if got := left(); got != step.want {
			t.Errorf("%s at %d:%s, want%s", step.container, step.at, got, step.want)
		}
	}
	h := handler(func(context.Context, cni.Call) wire.Answer { return wire.Answer{} })
	if n := cni.ReplayNew(t.Context(), run, h, slog.New(slog.DiscardHandler)); n != 3 || left() != "" {
		t.Errorf("%d done, left%s", n, left())
	}
}

// What is left while the agent is there is done at once, and what fails waits for the
// sweep: it is not tried again because it was noted that it failed.
func TestWhatIsLeftIsSeen(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	var mu sync.Mutex
	var served []string
	seen := make(chan struct{}, 100)
	h := handler(func(_ context.Context, c cni.Call) wire.Answer {
		mu.Lock()
		defer mu.Unlock()
		served = append(served, c.ContainerID)
		seen <- struct{}{}
		if c.ContainerID == "fails" {
			return wire.Answer{Error: &spec.Error{Code: spec.TryLater, Msg: "not now"}}
		}
		return wire.Answer{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- cni.Queue{Dir: run}.Watch(ctx, func() { cni.ReplayNew(ctx, run, h, slog.New(slog.DiscardHandler)) })
	}()
	for i, container := range []string{"fails", "one", "two"} {
		r := request("DEL", container)
		r.Protocol, r.Queued = 0, int64(i+1)
		must(t, wire.Leave(run, r))
		select {
		case <-seen:
		case <-time.After(time.Minute):
			t.Fatalf("the DEL of %s is not seen", container)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(served); got != "[fails one two]" {
		t.Errorf("served %s", got)
	}
}
