package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/container/daemontest"
	"github.com/plumb-net/plumb/plugins/containerd"
	"github.com/plumb-net/plumb/plugins/containerd/containerdtest"
	"github.com/plumb-net/plumb/plugins/cri/critest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// relist is the period of lists in these tests, unless events are to do alone.
const relist = 2 * time.Second

// bench is a real containerd with a tracker on it.
type bench struct {
	*containerdtest.Engine
	t       *testing.T
	tracker *container.Tracker
	// observer gets the events of the tracker, if it is set.
	observer container.Observer
}

// newBench tracks with lists so rare that only events can bring news.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Engine: containerdtest.Start(t), t: t}
	b.track(b.Socket, time.Hour)
	return b
}

// track runs a tracker until the test ends.
func (b *bench) track(socket string, relist time.Duration, more ...container.Runtime) {
	b.t.Helper()
	b.trackWith(relist, append(more, b.engine(socket))...)
}

// engine is containerd as the tracker sees it.
func (b *bench) engine(socket string) *containerd.Engine {
	b.t.Helper()
	e, err := containerd.New(containerd.Options{Socket: socket})
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

func (b *bench) trackWith(relist time.Duration, runtimes ...container.Runtime) {
	b.t.Helper()
	var err error
	b.tracker, err = container.New(container.Options{CallTimeout: 2 * time.Second, Relist: relist, Observer: b.observer}, runtimes...)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- b.tracker.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
}

// eventually waits until check finds nothing wrong.
func (b *bench) eventually(check func() error) {
	b.t.Helper()
	err := check()
	for end := time.Now().Add(daemontest.Patience); err != nil; err = check() {
		if time.Now().After(end) {
			b.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// agree waits until the tracker says of every container what containerd's own
// command and the kernel say.
func (b *bench) agree() {
	b.t.Helper()
	b.eventually(func() error {
		want, err := b.truth()
		if err != nil {
			return err
		}
		found, err := b.tracker.Containers()
		if err != nil {
			return err
		}
		if got := table(found); got != want {
			return fmt.Errorf("the tracker says\n%scontainerd says\n%s", got, want)
		}
		return nil
	})
}

// row is one container, in the same words from both sides.
func row(namespace, id, state string, pid uint32, netns uint64) string {
	return fmt.Sprintln(namespace, id, state, "pid", pid, "netns", netns)
}

func table(all map[string]*models.Container) string {
	var rows []string
	for _, v := range all {
		namespace, _ := strings.CutPrefix(v.Runtime, "containerd:")
		state := v.State
		if v.Pid == 0 {
			state = "idle"
		}
		rows = append(rows, row(namespace, v.ContainerId, state, v.Pid, v.Netns))
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}

// truth is the table as ctr and /proc give it.
func (b *bench) truth() (string, error) {
	namespaces, err := b.Try("namespaces", "list", "--quiet")
	if err != nil {
		return "", err
	}
	var rows []string
	for _, ns := range strings.Fields(namespaces) {
		list, err := b.Try("--namespace", ns, "containers", "list", "--quiet")
		if err != nil {
			return "", err
		}
		tasks, err := b.Try("--namespace", ns, "tasks", "list")
		if err != nil {
			return "", err
		}
		for _, id := range strings.Fields(list) {
			r, err := trueRow(ns, id, tasks)
			if err != nil {
				return "", err
			}
			rows = append(rows, r)
		}
	}
	slices.Sort(rows)
	return strings.Join(rows, ""), nil
}

func trueRow(namespace, id, tasks string) (string, error) {
	state, pid, netns := "idle", uint32(0), uint64(0)
	for line := range strings.Lines(tasks) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != id || f[2] != "RUNNING" && f[2] != "PAUSED" {
			continue
		}
		state = strings.ToLower(f[2])
		if _, err := fmt.Sscan(f[1], &pid); err != nil {
			return "", err
		}
		var st syscall.Stat_t
		if err := syscall.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st); err != nil {
			return "", err
		}
		netns = st.Ino
	}
	return row(namespace, id, state, pid, netns), nil
}

// serves waits until the label is served by the container, or by none with "".
func (b *bench) serves(label, id string) *models.Microservice {
	b.t.Helper()
	var v *models.Microservice
	b.eventually(func() error {
		all, err := b.tracker.Microservices()
		v = all[label]
		if got := v.GetContainerId(); got != id {
			return fmt.Errorf("microservice %s is served by %q, want %q (%v)", label, got, id, err)
		}
		return nil
	})
	return v
}

// container waits until what is known of a container is as it should be.
func (b *bench) container(key, what string, right func(v *models.Container) bool) *models.Container {
	b.t.Helper()
	var v *models.Container
	b.eventually(func() error {
		all, err := b.tracker.Containers()
		if v = all[key]; !right(v) {
			return fmt.Errorf("%s should be %s, but is %v (%v)", key, what, v, err)
		}
		return nil
	})
	return v
}

// isUnknown: the tracker says that it does not know.
func (b *bench) isUnknown() error {
	if _, err := b.tracker.Containers(); !errors.Is(err, container.ErrUnknown) {
		return fmt.Errorf("containerd is away, but the tracker says %v", err)
	}
	return nil
}

// labelled are the options of a container with a service label.
func labelled(label string) []string { return []string{"--env", "MICROSERVICE_LABEL=" + label} }

// pod runs a sandbox that the test removes at its end at the latest.
func (b *bench) pod(p critest.Pod) string {
	b.t.Helper()
	id, err := b.RunPod(b.t.Context(), p)
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

func (b *bench) inPod(sandbox string, p critest.Pod, name string, env map[string]string, command ...string) string {
	b.t.Helper()
	id, err := b.RunContainer(b.t.Context(), sandbox, p, name, env, command...)
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}
