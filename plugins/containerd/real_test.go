package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/container/daemontest"
	"github.com/plumb-net/plumb/plugins/containerd"
	"github.com/plumb-net/plumb/plugins/containerd/containerdtest"
	"github.com/plumb-net/plumb/plugins/cri/critest"
	"github.com/plumb-net/plumb/plugins/docker"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
)

// TestLife takes a container through all that may happen to it, by events
// alone; after each the tracker agrees with containerd.
func TestLife(t *testing.T) {
	b := newBench(t)
	b.agree()
	const key = "containerd:default:web"
	run := func(b *bench) { b.Run("default", "web", labelled("web")...); b.serves("web", "web") }
	exited := func(code int32, reason string) func(b *bench) {
		return func(b *bench) {
			b.container(key, fmt.Sprintf("exited with %d", code), func(v *models.Container) bool {
				return v.GetState() == "exited" && v.ExitCode == code && v.Reason == reason && v.StartedAt != "" && v.FinishedAt >= v.StartedAt
			})
		}
	}
	gone := func(b *bench) {
		b.container(key, "gone", func(v *models.Container) bool { return v == nil })
	}
	for _, story := range []struct {
		name   string
		play   func(b *bench)
		served string // the container that serves web afterwards
		then   func(b *bench)
	}{
		{"run", run, "web", func(b *bench) {
			v := b.container(key, "there", func(v *models.Container) bool { return v.GetImage() == containerdtest.Image })
			ctx, cancel := context.WithTimeout(b.t.Context(), daemontest.Patience)
			defer cancel()
			if now, err := b.tracker.Since(ctx, "containerd:default:web", time.Now()); err != nil || now.GetPid() != v.Pid {
				b.t.Errorf("asked anew: %v, %v", now, err)
			}
			if v.Runtime != "containerd:default" || v.Name != "web" || v.Labels["io.containerd.image.config.stop-signal"] == "" {
				b.t.Errorf("it is shown as %v", v)
			}
		}},
		{"create", func(b *bench) {
			b.Ctr("default", "containers", "create", containerdtest.Image, "web")
		}, "", func(b *bench) {
			b.container(key, "created", func(v *models.Container) bool { return v.GetState() == "created" && v.StartedAt == "" })
		}},
		{"kill", func(b *bench) { run(b); b.Ctr("default", "tasks", "kill", "--signal", "KILL", "web") }, "", exited(137, "")},
		{"kill -9", func(b *bench) { run(b); b.kill9("default", "web") }, "", exited(137, "")},
		{"exit", func(b *bench) { b.RunCommand("default", "web", labelled("web"), "sh", "-c", "exit 7") }, "", exited(7, "")},
		{"exit and task deleted", func(b *bench) {
			b.RunCommand("default", "web", labelled("web"), "sh", "-c", "exit 7")
			b.eventually(func() error { _, err := b.Try("--namespace", "default", "tasks", "delete", "web"); return err })
		}, "", exited(7, "")},
		{"cannot start", func(b *bench) {
			if b.TryRun("default", "web", nil, "/no/such/command") == nil {
				b.t.Error("it started")
			}
		}, "", nil},
		{"rm -f", func(b *bench) { run(b); b.Remove("default", "web") }, "", gone},
		{"same name again", func(b *bench) {
			run(b)
			before := b.serves("web", "web")
			b.Remove("default", "web")
			run(b)
			if after := b.serves("web", "web"); after.Pid == before.Pid || after.StartedAt <= before.StartedAt {
				b.t.Errorf("first %v, then %v", before, after)
			}
		}, "web", nil},
		{"pause", func(b *bench) {
			run(b)
			b.Ctr("default", "tasks", "pause", "web")
			b.container(key, "paused", func(v *models.Container) bool { return v.GetState() == "paused" })
			b.agree()
			b.serves("web", "web")
			b.Ctr("default", "tasks", "resume", "web")
		}, "web", nil},
		{"out of memory", func(b *bench) {
			b.RunCommand("default", "web", append(labelled("web"), "--memory-limit", "12582912"),
				"sh", "-c", "a=xxxxxxxx; while :; do a=$a$a; done")
		}, "", exited(137, container.OutOfMemory)},
		{"another namespace", func(b *bench) {
			b.Run("blue", "web", labelled("blue")...)
			b.serves("blue", "web")
			b.Run("default", "web", labelled("web")...)
			b.agree()
			b.Remove("blue", "web")
			b.serves("blue", "")
		}, "web", nil},
	} {
		t.Run(story.name, func(t *testing.T) {
			b := &bench{Engine: b.Engine, t: t, tracker: b.tracker}
			story.play(b)
			b.serves("web", story.served)
			b.agree()
			if story.then != nil {
				story.then(b)
			}
			if _, err := b.Try("--namespace", "default", "containers", "info", "web"); err == nil {
				b.Remove("default", "web")
			}
			b.agree()
		})
	}
}

func (b *bench) kill9(namespace, id string) {
	b.t.Helper()
	if err := syscall.Kill(b.Pid(namespace, id), syscall.SIGKILL); err != nil {
		b.t.Fatal(err)
	}
}

// TestExecExits: what is executed in a container comes and goes
// without anybody taking it for the container: not one hint tells of it. The
// shim sends its events in their order, so when a pause is told of, all that was
// executed before it has been.
func TestExecExits(t *testing.T) {
	b := &bench{Engine: containerdtest.Start(t), t: t}
	heard := &heard{}
	b.trackWith(time.Hour, heard.by(b.engine(b.Socket)))
	b.Run("default", "web", labelled("web")...)
	before := b.serves("web", "web")
	b.eventually(func() error { return heard.has("default:web", container.Started) })
	heard.clear()
	for i := range 5 {
		b.Ctr("default", "tasks", "exec", "--exec-id", fmt.Sprint("x", i), "web", "true")
	}
	b.Ctr("default", "tasks", "pause", "web")
	b.container("containerd:default:web", "paused", func(v *models.Container) bool { return v.GetState() == "paused" })
	if all := heard.all(); len(all) != 1 || all[0].ID != "default:web" || all[0].Says != "" {
		t.Errorf("the hints of a pause and of what was executed before it are %+v, want that of the pause alone", all)
	}
	b.Ctr("default", "tasks", "resume", "web")
	b.agree()
	if after := b.serves("web", "web"); after.Pid != before.Pid || after.StartedAt != before.StartedAt {
		t.Errorf("before %v, after %v", before, after)
	}
}

// TestPodOfContainers: the containers of a pod live in the namespace of its
// sandbox, which owns it; labels are found at either; the pod ends as a whole.
func TestPodOfContainers(t *testing.T) {
	b := newBench(t)
	web := critest.Pod{Name: "web", Labels: map[string]string{"plumb.microservice": "web"}}
	sandbox := b.pod(web)
	main := b.inPod(sandbox, web, "main", nil)
	side := b.inPod(sandbox, web, "side", map[string]string{"MICROSERVICE_LABEL": "side"})

	owner := b.container("containerd:k8s.io:"+sandbox, "running", func(v *models.Container) bool { return v.GetNetns() != 0 })
	if owner.Name != "default/web" || owner.Labels["plumb.microservice"] != "web" || len(owner.Addresses) != 1 || !strings.HasPrefix(owner.Addresses[0], "10.89.0.") {
		t.Errorf("the sandbox is %v", owner)
	}
	member := b.container("containerd:k8s.io:"+main, "running", func(v *models.Container) bool { return v.GetNetns() != 0 })
	if member.Netns != owner.Netns || member.Name != "default/web/main" || member.Refused != "" {
		t.Errorf("sandbox %v\ncontainer %v", owner, member)
	}
	if v := b.serves("web", sandbox); v.Netns != owner.Netns || v.Refused != "" {
		t.Errorf("web is %v", v)
	}
	if v := b.serves("side", side); !strings.Contains(v.Refused, "microservice/web") || !strings.Contains(strings.Join(v.Conflicts, ";"), "default/web)") {
		t.Errorf("a second label in the namespace of the sandbox: %v", v)
	}
	b.agree()

	// A container of the pod dies; the pod and its namespace stay.
	b.kill9("k8s.io", main)
	b.container("containerd:k8s.io:"+main, "exited", func(v *models.Container) bool { return v.GetState() == "exited" && v.ExitCode == 137 })
	b.serves("web", sandbox)
	b.agree()
	if err := b.RemovePod(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	b.serves("web", "")
	b.serves("side", "")
	b.agree()

	host := b.pod(critest.Pod{Name: "host", Labels: map[string]string{"plumb.microservice": "host"}, HostNetwork: true})
	if v := b.serves("host", host); !strings.Contains(v.Refused, "host network mode") {
		t.Errorf("a pod in the namespace of the host: %v", v)
	}
}

// TestEventsAndLists: containerd 1.6 has no events of CRI; its own
// tell of pods all the same, and without events the lists do.
func TestEventsAndLists(t *testing.T) {
	b := newBench(t)
	b.agree()
	lists := b.tracker.Runtimes()[0].Lists
	sandbox := b.pod(critest.Pod{})
	b.inPod(sandbox, critest.Pod{}, "main", nil, "sh", "-c", "sleep 0.2; exit 3")
	b.agree()
	if now := b.tracker.Runtimes()[0].Lists; now != lists {
		t.Errorf("%d lists were needed, want %d", now, lists)
	}
	deaf := &bench{Engine: b.Engine, t: t}
	deaf.trackWith(200*time.Millisecond, silent{b.engine(b.Socket)})
	deaf.agree()
	if err := b.RemovePod(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	b.Run("late", "web")
	deaf.agree()
	b.agree()
}

// TestWithDocker: Docker runs on this containerd, and both are
// tracked: each container is known once, by the runtime that people use.
func TestWithDocker(t *testing.T) {
	b := &bench{Engine: containerdtest.Start(t), t: t}
	d := dockertest.Start(t, "--containerd", b.Socket)
	moby, err := docker.New(d.Host)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := containerd.New(containerd.Options{Socket: b.Socket, Skip: containerd.DockerNamespaces})
	if err != nil {
		t.Fatal(err)
	}
	b.trackWith(time.Hour, moby, beside)
	inDocker := d.Run("--name", "web", "--env", "MICROSERVICE_LABEL=docker")
	b.Run("default", "web", labelled("native")...)
	b.serves("docker", inDocker)
	b.serves("native", "web")
	b.hasKeys("containerd:default:web", "docker:"+inDocker)

	// Who does not track Docker sees its containers by way of containerd.
	alone := &bench{Engine: b.Engine, t: t}
	alone.track(b.Socket, time.Hour)
	v := alone.serves("docker", inDocker)
	if v.Runtime != "containerd:moby" || v.Netns == 0 || v.Refused != "" {
		t.Errorf("without Docker: %v", v)
	}
	alone.hasKeys("containerd:default:web", "containerd:moby:"+inDocker)
	d.Docker("rm", "--force", "web")
	b.serves("docker", "")
	alone.serves("docker", "")
	b.serves("native", "web")
}

func (b *bench) hasKeys(keys ...string) {
	b.t.Helper()
	b.eventually(func() error {
		all, err := b.tracker.Containers()
		for _, k := range keys {
			if all[k] == nil {
				err = errors.Join(err, errors.New("there is no "+k))
			}
		}
		if len(all) != len(keys) {
			err = errors.Join(err, fmt.Errorf("there are %d containers, want %v: %v", len(all), keys, all))
		}
		return err
	})
}
