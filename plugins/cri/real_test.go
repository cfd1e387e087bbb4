package cri_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/container/daemontest"
	"github.com/plumb-net/plumb/plugins/containerd/containerdtest"
	"github.com/plumb-net/plumb/plugins/cri"
	"github.com/plumb-net/plumb/plugins/cri/critest"
)

// TestListsAlone follows a pod by CRI alone, on an engine without events of CRI
// (containerd 1.6 stands in for CRI-O): it comes, one of its containers dies,
// the engine is killed while another one dies, and it goes.
func TestListsAlone(t *testing.T) {
	e := containerdtest.Start(t)
	engine, err := cri.New(cri.Options{Socket: e.Socket})
	if err != nil {
		t.Fatal(err)
	}
	tracker, err := container.New(container.Options{CallTimeout: 2 * time.Second, Relist: time.Hour}, engine)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- tracker.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	is := func(key, what string, right func(v *models.Container) bool) (v *models.Container) {
		t.Helper()
		for end := time.Now().Add(daemontest.Patience); ; time.Sleep(20 * time.Millisecond) {
			all, err := tracker.Containers()
			if v = all["cri:"+key]; right(v) {
				return v
			}
			if time.Now().After(end) {
				t.Fatalf("%s should be %s, but is %v (%v)\n%s", key, what, v, err, e.Log())
			}
		}
	}
	running := func(v *models.Container) bool { return v.GetState() == "running" && v.Netns != 0 }
	killed := func(v *models.Container) bool { return v.GetState() == "exited" && v.ExitCode == 137 }

	web := critest.Pod{Name: "web", Labels: map[string]string{"plumb.microservice": "web"}}
	sandbox, err := e.RunPod(ctx, web)
	if err != nil {
		t.Fatal(err)
	}
	one, err := e.RunContainer(ctx, sandbox, web, "one", map[string]string{"A": "b"})
	if err != nil {
		t.Fatal(err)
	}
	two, err := e.RunContainer(ctx, sandbox, web, "two", nil)
	if err != nil {
		t.Fatal(err)
	}
	owner, first, second := is(sandbox, "running", running), is(one, "running", running), is(two, "running", running)
	if owner.Netns != first.Netns || owner.Name != "default/web" || first.Name != "default/web/one" || len(owner.Addresses) != 1 {
		t.Errorf("sandbox %v\ncontainer %v", owner, first)
	}
	services, err := tracker.Microservices()
	if v := services["web"]; v.GetContainerId() != sandbox || v.GetRefused() != "" {
		t.Errorf("web is served by %v, %v", v, err)
	}
	kill := func(v *models.Container) {
		t.Helper()
		if err := syscall.Kill(int(v.Pid), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	kill(first)
	is(one, "killed", killed)
	is(two, "running", running)

	e.Kill()
	kill(second)
	is(two, "over, by the kernel's word", func(v *models.Container) bool { return v.GetState() == "exited" })
	is(sandbox, "running", running)
	e.Up()
	is(two, "over", func(v *models.Container) bool {
		_, err := tracker.Containers()
		return err == nil && v.GetState() == "exited"
	})
	is(sandbox, "running", running)

	if err := e.RemovePod(ctx, sandbox); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{sandbox, one, two} {
		is(id, "gone", func(v *models.Container) bool { return v == nil })
	}
	e.Down()
	for end := time.Now().Add(daemontest.Patience); ; time.Sleep(20 * time.Millisecond) {
		if _, err = tracker.Containers(); errors.Is(err, container.ErrUnknown) {
			break
		}
		if time.Now().After(end) {
			t.Fatal(fmt.Errorf("the engine is away, but the tracker says %v", err))
		}
	}
}
