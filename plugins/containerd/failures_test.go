package containerd_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/containerd/containerdtest"
	"github.com/plumb-net/plumb/plugins/cri/critest"
)

// TestShimKilled: the shim, which alone could tell how the container ended, is
// killed, and containerd makes an end of the container.
func TestShimKilled(t *testing.T) {
	b := newBench(t)
	b.Run("default", "web", labelled("web")...)
	b.serves("web", "web")
	socket := b.ShimSocket("default", "web")
	defer func() { _ = os.Remove(socket) }() // nobody else does
	if err := syscall.Kill(parent(t, b.Pid("default", "web")), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.serves("web", "")
	b.agree()
}

// TestShimHangs: of a container whose shim does not answer nothing new is known,
// and it is not taken for ended; others come and go as ever.
func TestShimHangs(t *testing.T) {
	b := &bench{Engine: containerdtest.Start(t), t: t}
	b.track(b.Socket, relist/4)
	b.Run("default", "web", labelled("web")...)
	web := b.serves("web", "web")
	watch := b.neverEmpty("web", web)
	shim := parent(t, int(web.Pid))
	if err := syscall.Kill(shim, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.eventually(func() error {
		if h := b.tracker.Runtimes()[0]; h.State != "known" || h.InError != 1 {
			return fmt.Errorf("health %+v", h)
		}
		return nil
	})
	b.Run("default", "db", labelled("db")...)
	b.serves("db", "db")
	b.kill9("default", "db")
	b.serves("db", "")
	if err := errors.Join(watch(), syscall.Kill(shim, syscall.SIGCONT)); err != nil {
		t.Error(err)
	}
	b.agree()
	b.eventually(func() error {
		if h := b.tracker.Runtimes()[0]; h.InError != 0 {
			return fmt.Errorf("health %+v", h)
		}
		return nil
	})
}

// TestAbsentAtStart: containerd comes after the agent and is picked up.
func TestAbsentAtStart(t *testing.T) {
	b := &bench{Engine: containerdtest.New(t), t: t}
	b.track(b.Socket, time.Hour)
	b.eventually(b.isUnknown)
	if b.tracker.Synced() {
		t.Error("nothing was heard yet, but the tracker is in sync")
	}
	b.Up()
	b.ImportImage()
	b.Run("default", "web", labelled("web")...)
	b.serves("web", "web")
	b.agree()
}

// TestRestarts: containerd ends in good order, is killed, or hangs;
// its containers live on, and one ends while nobody but the kernel can tell.
func TestRestarts(t *testing.T) {
	for _, c := range []struct {
		name      string
		end, back func(e *containerdtest.Engine)
	}{
		{"TERM", (*containerdtest.Engine).Down, (*containerdtest.Engine).Up},
		{"KILL", (*containerdtest.Engine).Kill, (*containerdtest.Engine).Up},
		{"STOP", (*containerdtest.Engine).Freeze, (*containerdtest.Engine).Thaw},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &bench{Engine: containerdtest.Start(t), t: t}
			b.track(b.Socket, relist)
			b.Run("default", "web", labelled("web")...)
			b.Run("default", "db", labelled("db")...)
			p := critest.Pod{Labels: map[string]string{"plumb.microservice": "pod"}}
			sandbox := b.pod(p)
			b.inPod(sandbox, p, "main", nil)
			before, db, pod := b.serves("web", "web"), b.serves("db", "db"), b.serves("pod", sandbox)
			b.agree()

			c.end(b.Engine)
			b.eventually(b.isUnknown)
			if err := syscall.Kill(int(db.Pid), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			b.serves("db", "")
			if v := b.serves("web", "web"); v.Pid != before.Pid || v.StartedAt != before.StartedAt {
				t.Errorf("web was %v, is %v while containerd is away", before, v)
			}
			c.back(b.Engine)
			b.agree()
			if v := b.serves("web", "web"); v.Pid != before.Pid || v.StartedAt != before.StartedAt {
				t.Errorf("web was %v, is %v", before, v)
			}
			if v := b.serves("pod", sandbox); v.Pid != pod.Pid || v.StartedAt != pod.StartedAt {
				t.Errorf("the pod was %v, is %v", pod, v)
			}
			b.serves("db", "")
			b.container("containerd:default:db", "exited with 137", func(v *models.Container) bool {
				return v.GetState() == "exited" && v.ExitCode == 137 && v.StartedAt == db.StartedAt
			})
			b.eventually(func() error {
				if h := b.tracker.Health()[0]; h.State != "ok" || h.Details["version"] == "" {
					return fmt.Errorf("health %+v", h)
				}
				return nil
			})
			b.Run("default", "new", labelled("new")...)
			b.serves("new", "new")
			b.agree()
		})
	}
}

// TestConnectionFails: what is between containerd and us breaks or
// hangs. That is never taken for there being no containers.
func TestConnectionFails(t *testing.T) {
	b := &bench{Engine: containerdtest.Start(t), t: t}
	proxy := containerdtest.NewProxy(t, b.Socket)
	b.track(proxy.Socket, relist)
	b.Run("default", "web", labelled("web")...)
	b.Run("default", "db", labelled("db")...)
	before, db := b.serves("web", "web"), b.serves("db", "db")
	watch := b.neverEmpty("web", before)
	for range 5 {
		proxy.Cut()
		time.Sleep(50 * time.Millisecond)
	}
	b.agree()
	proxy.Hang()
	b.eventually(b.isUnknown)
	if err := syscall.Kill(int(db.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.serves("db", "")
	proxy.Cut() // and new connections hang as well
	time.Sleep(3 * time.Second)
	if err := b.isUnknown(); err != nil {
		t.Error(err)
	}
	// It was asked about db all that time: no answer does not mean that it is gone.
	if all, _ := b.tracker.Containers(); all["containerd:default:db"].GetState() != "exited" {
		t.Errorf("db, which has ended, is shown as %v", all["containerd:default:db"])
	}
	proxy.Flow()
	b.agree()
	if err := watch(); err != nil {
		t.Error(err)
	}
}

// neverEmpty watches until it is asked whether a microservice was ever missing
// or another.
func (b *bench) neverEmpty(label string, want *models.Microservice) (end func() error) {
	stop, result := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			all, _ := b.tracker.Microservices()
			if v := all[label]; v.GetPid() != want.Pid || v.GetNetns() != want.Netns {
				result <- fmt.Errorf("%s was %v, should be %v", label, v, want)
				return
			}
			select {
			case <-stop:
				result <- nil
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() error { close(stop); return <-result }
}
