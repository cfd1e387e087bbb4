package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/container/daemontest"
	"github.com/plumb-net/plumb/plugins/docker"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
)

// bench is a real engine with a tracker on it.
type bench struct {
	*dockertest.Engine
	t       *testing.T
	tracker *container.Tracker
	proxy   *dockertest.Proxy // nil: the tracker speaks to the engine itself

	mu     sync.Mutex
	events []container.Event
}

func newBench(t *testing.T, args ...string) *bench {
	t.Helper()
	b := &bench{Engine: dockertest.Start(t, args...), t: t}
	b.track()
	return b
}

// newProxied has the tracker speak to the engine by a proxy.
func newProxied(t *testing.T) *bench {
	t.Helper()
	b := &bench{Engine: dockertest.Start(t), t: t}
	b.proxy = b.Proxy(t)
	b.track()
	return b
}

func (b *bench) observe(e container.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

// track runs a tracker until the test ends.
func (b *bench) track() {
	b.t.Helper()
	host := b.Host
	if b.proxy != nil {
		host = b.proxy.Host
	}
	engine, err := docker.New(host)
	if err != nil {
		b.t.Fatal(err)
	}
	b.tracker, err = container.New(container.Options{
		CallTimeout: 2 * time.Second, Relist: 3 * time.Second, Observer: b.observe}, engine)
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

// agree waits until the tracker says of every container what docker says.
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
		got := table(found)
		if got != want {
			return fmt.Errorf("the tracker says\n%sdocker says\n%s%+v", without(got, want), without(want, got), b.tracker.Runtimes()[0])
		}
		return nil
	})
}

// without are the lines of a that b has not.
func without(a, b string) string {
	var out strings.Builder
	for line := range strings.Lines(a) {
		if !strings.Contains(b, line) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// row is one container, in the same words from both sides.
func row(id, name, state string, pid uint32, netns uint64, started string, exit int32, oom bool) string {
	return fmt.Sprintln(id[:12], name, state, "pid", pid, "netns", netns, "started", started, "exit", exit, "oom", oom)
}

func table(all map[string]*models.Container) string {
	var rows []string
	for _, v := range all {
		rows = append(rows, row(v.ContainerId, v.Name, v.State, v.Pid, v.Netns, v.StartedAt, v.ExitCode, v.Reason == "OOMKilled"))
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}

// truth is the table as the docker command and /proc give it.
func (b *bench) truth() (string, error) {
	list, err := b.Try("ps", "--all", "--quiet", "--no-trunc")
	if err != nil || list == "" {
		return "", err
	}
	out, err := b.Try(append([]string{"inspect"}, strings.Fields(list)...)...)
	if err != nil {
		return "", err // one went in between
	}
	var all []struct {
		ID    string `json:"Id"`
		Name  string
		State struct {
			Status              string
			Pid                 uint32
			ExitCode            int32
			OOMKilled           bool
			StartedAt           time.Time
			Running, Restarting bool
		}
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return "", err
	}
	var rows []string
	for _, c := range all {
		var netns uint64
		if c.State.Pid != 0 {
			var st syscall.Stat_t
			if err := syscall.Stat(fmt.Sprintf("/proc/%d/ns/net", c.State.Pid), &st); err != nil {
				return "", err
			}
			netns = st.Ino
		}
		started := ""
		if !c.State.StartedAt.IsZero() {
			started = c.State.StartedAt.UTC().Format(time.RFC3339Nano)
		}
		rows = append(rows, row(c.ID, strings.TrimPrefix(c.Name, "/"), c.State.Status, c.State.Pid, netns,
			started, c.State.ExitCode, c.State.OOMKilled && c.State.Pid == 0))
	}
	slices.Sort(rows)
	return strings.Join(rows, ""), nil
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

func (b *bench) kill9(name string) {
	b.t.Helper()
	if err := syscall.Kill(b.Pid(name), syscall.SIGKILL); err != nil {
		b.t.Fatal(err)
	}
}

// labelled are the options of a container with a service label.
func labelled(label string, more ...string) []string {
	return append([]string{"--name", label, "--env", "MICROSERVICE_LABEL=" + label}, more...)
}

// TestLife takes a container through all that an operator, a crash or the
// kernel may do to it; after each the tracker agrees with docker.
func TestLife(t *testing.T) {
	b := newBench(t)
	b.agree()
	for _, story := range []struct {
		name string
		play func(b *bench) (served string) // the container that serves web afterwards
	}{
		{"run", func(b *bench) string { return b.Run(labelled("web")...) }},
		{"stop", func(b *bench) string { b.Docker("stop", b.Run(labelled("web")...)); return "" }},
		{"stop and start", func(b *bench) string {
			id := b.Run(labelled("web")...)
			b.serves("web", id)
			b.Docker("stop", id)
			b.serves("web", "")
			b.Docker("start", id)
			return id
		}},
		{"kill", func(b *bench) string { b.Docker("kill", b.Run(labelled("web")...)); return "" }},
		{"kill -9", func(b *bench) string {
			b.serves("web", b.Run(labelled("web")...))
			b.kill9("web")
			return ""
		}},
		{"exit", func(b *bench) string {
			b.Docker("run", "--detach", "--name", "web", "--env", "MICROSERVICE_LABEL=web", dockertest.Image, "sh", "-c", "exit 7")
			return ""
		}},
		{"cannot start", func(b *bench) string {
			if _, err := b.Try("run", "--detach", "--name", "web", dockertest.Image, "/no/such/command"); err == nil {
				b.t.Error("it started")
			}
			return ""
		}},
		{"create", func(b *bench) string { b.Docker("create", "--name", "web", dockertest.Image, "true"); return "" }},
		{"rm -f", func(b *bench) string { b.Docker("rm", "--force", b.Run(labelled("web")...)); return "" }},
		{"restart", func(b *bench) string {
			id := b.Run(labelled("web")...)
			before := b.serves("web", id)
			b.Docker("restart", id)
			b.eventually(func() error {
				if after := b.serves("web", id); after.Pid == before.Pid || after.StartedAt == before.StartedAt {
					return errors.New("it still is the life before the restart")
				}
				return nil
			})
			return id
		}},
		{"pause", func(b *bench) string {
			id := b.Run(labelled("web")...)
			b.serves("web", id)
			b.Docker("pause", id)
			b.agree()
			b.serves("web", id)
			b.Docker("unpause", id)
			return id
		}},
		{"rename", func(b *bench) string {
			id := b.Run(labelled("web")...)
			b.serves("web", id)
			b.Docker("rename", id, "other")
			return id
		}},
		{"restart policy", func(b *bench) string {
			id := b.Run(labelled("web", "--restart", "always")...)
			first := b.serves("web", id)
			b.kill9("web")
			b.eventually(func() error {
				if all, _ := b.tracker.Microservices(); all["web"] == nil || all["web"].Pid == first.Pid {
					return errors.New("it was not started again")
				}
				return nil
			})
			return id
		}},
		{"out of memory", func(b *bench) string {
			b.Docker("run", "--detach", "--name", "web", "--memory", "12m", "--memory-swap", "12m",
				dockertest.Image, "sh", "-c", "a=xxxxxxxx; while :; do a=$a$a; done")
			b.eventually(func() error {
				if out := b.Docker("inspect", "--format", "{{.State.OOMKilled}} {{.State.Status}}", "web"); out != "true exited" {
					return errors.New("out of memory: " + out)
				}
				return nil
			})
			return ""
		}},
		{"network connect", func(b *bench) string {
			id := b.Run(labelled("web")...)
			b.serves("web", id)
			b.Docker("network", "create", "blue")
			b.Docker("network", "connect", "blue", id)
			b.eventually(func() error {
				all, _ := b.tracker.Containers()
				if n := len(all["docker:"+id].GetAddresses()); n != 2 {
					return fmt.Errorf("it has %d addresses, want 2", n)
				}
				return nil
			})
			return id
		}},
		{"exec", func(b *bench) string {
			id := b.Run(labelled("web")...)
			b.Docker("exec", id, "true")
			return id
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			b := &bench{Engine: b.Engine, t: t, tracker: b.tracker}
			served := story.play(b)
			b.agree()
			b.serves("web", served)
			b.removeAll()
			b.agree()
		})
	}
}

func (b *bench) removeAll() {
	b.t.Helper()
	if all := strings.Fields(b.Docker("ps", "--all", "--quiet")); len(all) > 0 {
		b.Docker(append([]string{"rm", "--force"}, all...)...)
	}
	b.Docker("network", "prune", "--force")
}

// TestNamespaces: host mode is refused, a joined namespace is the owner's.
func TestNamespaces(t *testing.T) {
	b := newBench(t)
	host := b.Run(labelled("host", "--network", "host")...)
	if v := b.serves("host", host); !strings.Contains(v.Refused, "host network mode") {
		t.Errorf("host mode: refused %q", v.Refused)
	}
	pod := b.Run("--name", "pod")
	side := b.Run(labelled("side", "--network", "container:pod")...)
	v := b.serves("side", side)
	all, _ := b.tracker.Containers()
	if owner := all["docker:"+pod]; v.Refused != "" || v.Netns == 0 || v.Netns != owner.Netns {
		t.Errorf("joined: %v, owner %v", v, owner)
	}
	second := b.Run(labelled("second", "--network", "container:pod")...)
	if v := b.serves("second", second); !strings.Contains(v.Refused, "microservice/side") {
		t.Errorf("second label: refused %q", v.Refused)
	}
	nested := b.Run("--name", "nested", "--network", "container:host", "--label", "plumb.microservice=nested")
	if v := b.serves("nested", nested); v.Refused == "" {
		t.Error("a container that joined one in host mode is not refused")
	}
	b.agree()
}

// TestBurst: several at once, and a tracker that comes late, end in the same table.
func TestBurst(t *testing.T) {
	b := newBench(t)
	for i := range 8 {
		go func() { _, _ = b.Try("run", "--detach", "--name", fmt.Sprint("c", i), dockertest.Image, "sleep", "1") }()
	}
	b.eventually(func() error {
		all, _ := b.tracker.Containers()
		if len(all) != 8 {
			return fmt.Errorf("%d containers are known", len(all))
		}
		for id, v := range all {
			if v.State != "exited" {
				return fmt.Errorf("%s is %s", id, v.State)
			}
		}
		return nil
	})
	b.agree()
	late := &bench{Engine: b.Engine, t: t}
	late.track()
	late.agree()
}

// TestEngineRestarts: the engine ends in good order or is killed, with its
// containers and without.
func TestEngineRestarts(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		end  func(e *dockertest.Engine)
		live bool // the containers outlive the engine
	}{
		{"TERM", nil, (*dockertest.Engine).Down, false},
		{"KILL", nil, (*dockertest.Engine).Kill, true},
		{"TERM with live restore", []string{"--live-restore"}, (*dockertest.Engine).Down, true},
		{"KILL with live restore", []string{"--live-restore"}, (*dockertest.Engine).Kill, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.args...)
			web := b.Run(labelled("web", "--restart", "always")...)
			db := b.Run(labelled("db")...)
			before := b.serves("web", web)
			dbPid := b.serves("db", db).Pid
			b.agree()

			c.end(b.Engine)
			b.eventually(b.isUnknown)
			if c.live {
				if v := b.serves("web", web); v.Pid != before.Pid {
					t.Errorf("web changed while the engine was down: %v", v)
				}
				// One dies while nobody is there to tell but the kernel.
				if err := syscall.Kill(int(dbPid), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			b.serves("db", "")
			b.Up()
			b.agree()
			b.serves("web", web)
			b.serves("db", "")
			b.eventually(func() error { return b.restarted(web) })
		})
	}
}

// restarted: of a container that came back under its id one death and one start
// more were told than before; of one that lived on, none.
func (b *bench) restarted(id string) error {
	story, err := storyOf(b.byContainer()[id])
	if err != nil {
		return err
	}
	runs := map[string]bool{}
	for _, e := range b.byContainer()[id] {
		if e.Type == container.Started {
			runs[e.Run.StartedAt.String()] = true
		}
	}
	now, err := b.tracker.Container(id)
	if err != nil || len(runs)*2-1 != len(story) || now.State != "running" {
		return fmt.Errorf("%d runs, told was %q, and it is %v (%v)", len(runs), story, now, err)
	}
	return nil
}

func (b *bench) isUnknown() error {
	if _, err := b.tracker.Containers(); !errors.Is(err, container.ErrUnknown) {
		return fmt.Errorf("the engine is down, but the tracker says %v", err)
	}
	return nil
}

// TestEngineComesLater: an engine that is away at the start is picked up.
func TestEngineComesLater(t *testing.T) {
	b := &bench{Engine: dockertest.Start(t), t: t}
	web := b.Run(labelled("web", "--restart", "always")...)
	b.Down()
	b.track()
	b.eventually(b.isUnknown)
	b.Up()
	b.agree()
	b.serves("web", web)
}

// TestFrozenEngine: the engine hangs with its connections open.
func TestFrozenEngine(t *testing.T) {
	b := &bench{Engine: dockertest.Start(t), t: t}
	web := b.Run(labelled("web")...)
	db := b.Run(labelled("db")...)
	b.track()
	b.serves("web", web)
	pid := b.serves("db", db).Pid
	b.Freeze()
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.serves("db", "") // nobody can tell but the kernel
	all, err := b.tracker.Containers()
	if state := all["docker:"+db].GetState(); state != "exited" {
		t.Errorf("db is %s (%v)", state, err)
	}
	b.serves("web", web)
	b.eventually(b.hasTrouble)
	b.Thaw()
	b.agree()
	b.serves("web", web)
	b.eventually(func() error {
		if h := b.tracker.Health()[0]; h.State != "ok" || !strings.Contains(h.Details["version"], ", API 1.") {
			return fmt.Errorf("health %+v", h)
		}
		return nil
	})
}

// hasTrouble: a hanging engine shows in the health.
func (b *bench) hasTrouble() error {
	if h := b.tracker.Health()[0]; h.State == "ok" {
		return errors.New("the engine hangs, but its health is ok")
	}
	return nil
}
