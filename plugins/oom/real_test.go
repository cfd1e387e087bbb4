package oom_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/oom"
)

// TestMain is also the process that eats memory.
func TestMain(m *testing.M) {
	if os.Getenv("PLUMB_OOM_EAT") != "" {
		eat()
		return
	}
	os.Exit(m.Run())
}

// eat waits until it may, and then takes memory until it is killed.
func eat() {
	_, _ = os.Stdin.Read(make([]byte, 1))
	var held [][]byte
	for {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = 1
		}
		held = append(held, b)
		runtime.KeepAlive(held)
	}
}

// group is a cgroup with 16 MiB of memory.
type group struct {
	t   *testing.T
	dir string
	v1  bool
}

// lacks ends a test that needs what this machine has not. In CI that fails.
func lacks(t *testing.T, what string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("it needs "+what, args...)
	}
	t.Skipf("it needs "+what, args...)
}

// newGroup makes a cgroup with a limit, and one below it for the victims.
func newGroup(t *testing.T, name string) *group {
	t.Helper()
	if os.Geteuid() != 0 {
		lacks(t, "root, to limit memory")
	}
	base, file, v1 := "/sys/fs/cgroup/memory", "memory.limit_in_bytes", true
	if _, err := os.Stat(filepath.Join(base, file)); err != nil {
		base, file, v1 = "/sys/fs/cgroup", "memory.max", false
		_ = os.WriteFile(filepath.Join(base, "cgroup.subtree_control"), []byte("+memory"), 0)
	}
	g := &group{t: t, dir: filepath.Join(base, fmt.Sprintf("plumb-test-%d-%s", os.Getpid(), name)), v1: v1}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		lacks(t, "a cgroup: %v", err)
	}
	t.Cleanup(func() { g.remove(g.dir) })
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte("16M"), 0); err != nil {
		lacks(t, "a limit of memory: %v", err)
	}
	_ = os.WriteFile(filepath.Join(g.dir, "memory.swap.max"), []byte("0"), 0)
	if err := os.Mkdir(filepath.Join(g.dir, "kid"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.remove(filepath.Join(g.dir, "kid")) })
	return g
}

// patience is what a slow machine is given.
const patience = 2 * time.Minute

func (g *group) remove(dir string) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if os.Remove(dir) == nil {
			return
		}
	}
	g.t.Errorf("%s stays behind", dir)
}

func (g *group) path() string { return "/" + filepath.Base(g.dir) }

// victim is a process in the group that eats when it is told to.
type victim struct {
	cmd *exec.Cmd
	eat func()
}

func (g *group) victim() *victim {
	g.t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "PLUMB_OOM_EAT=1")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(g.dir, "kid", "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = in.Close() })
	return &victim{cmd: cmd, eat: func() { _, _ = in.Write([]byte{1}) }}
}

// cgroups is /proc/<pid>/cgroup.
func (v *victim) cgroups(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", v.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// told gathers kills.
type told struct {
	mu  sync.Mutex
	all []oom.Kill
}

func (l *told) tell(k oom.Kill) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, k)
}

// first waits for the first kill of a container.
func (l *told) first(t *testing.T, id string) oom.Kill {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if all := l.of(id); len(all) > 0 {
			return all[0]
		}
	}
	t.Fatalf("no kill of %s was told", id)
	return oom.Kill{}
}

func (l *told) of(id string) (out []oom.Kill) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.all {
		if k.Container == id {
			out = append(out, k)
		}
	}
	return out
}

// watch runs a watcher on the real kernel until the test ends.
func watch(t *testing.T, withLog bool) (*oom.Watcher, *told) {
	t.Helper()
	host, err := oom.OpenHost()
	if err != nil {
		lacks(t, "the counters of cgroups: %v", err)
	}
	l := &told{}
	o := oom.Options{Host: host, Tell: l.tell}
	if withLog {
		if o.Messages, err = oom.OpenKmsg(); err != nil {
			lacks(t, "the kernel's log: %v", err)
		}
	}
	w, err := oom.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w, l
}

// TestRealKill: a process in a cgroup below the limited one is killed by
// the real kernel. The kill names it, the cgroup and whose limit it was.
func TestRealKill(t *testing.T) {
	g := newGroup(t, "one")
	w, l := watch(t, true)
	v := g.victim()
	pid := v.cmd.Process.Pid
	w.Follow(oom.Container{ID: "test:one", Pid: pid, Cgroups: v.cgroups(t)})
	v.eat()
	err := v.cmd.Wait()
	w.Ended("test:one")
	k := l.first(t, "test:one")
	if k.Pid != pid || !k.First || k.Times != 1 || k.Count != 1 || k.Name == "" {
		t.Errorf("%v: %+v", err, k)
	}
	// Under a burst the kernel leaves this out.
	if k.Constraint != "" && (k.Limit != g.path() || k.Cgroup != g.path()+"/kid" || k.LimitContainer != "" || k.Constraint != "CONSTRAINT_MEMCG") {
		t.Errorf("%+v", k)
	}
	if all := l.of("test:one"); len(all) != 1 {
		t.Errorf("%d kills were told: %+v", len(all), all)
	}
	checkCounters(t, g)
}

// checkCounters: a kill by somebody else is none for lack of memory, and the
// counters alone tell a real one as well.
func checkCounters(t *testing.T, g *group) {
	w, l := watch(t, false)
	for _, c := range []struct {
		id   string
		eats bool
	}{{"test:shot", false}, {"test:fat", true}} {
		v := g.victim()
		w.Follow(oom.Container{ID: c.id, Pid: v.cmd.Process.Pid, Cgroups: v.cgroups(t), Told: 1})
		if c.eats {
			v.eat()
		} else if err := v.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = v.cmd.Wait()
		w.Ended(c.id)
		if c.eats {
			l.first(t, c.id)
		} else {
			time.Sleep(500 * time.Millisecond) // what has its time to be named is told by then
		}
		w.Forget(c.id)
	}
	if all := l.of("test:fat"); len(all) != 1 || all[0].Pid != 0 || all[0].Count != 2 {
		t.Errorf("told: %+v", all)
	}
	if all := l.of("test:shot"); len(all) != 0 {
		t.Errorf("told: %+v", all)
	}
}

// TestManyRealKills: many at once, more than the kernel reports in full
// (ten in five seconds). Each death says so, with the right victim.
func TestManyRealKills(t *testing.T) {
	const many = 25
	w, l := watch(t, true)
	var victims []*victim
	for i := range many {
		v := newGroup(t, strconv.Itoa(i)).victim()
		victims = append(victims, v)
		w.Follow(oom.Container{ID: fmt.Sprint("test:", i), Pid: v.cmd.Process.Pid, Cgroups: v.cgroups(t)})
	}
	var wait sync.WaitGroup
	for i, v := range victims {
		wait.Go(func() {
			v.eat()
			_ = v.cmd.Wait()
			w.Ended(fmt.Sprint("test:", i))
		})
	}
	wait.Wait()
	reported := 0
	for i, v := range victims {
		id, pid := fmt.Sprint("test:", i), v.cmd.Process.Pid
		if k := l.first(t, id); k.Pid != pid || !k.First {
			t.Errorf("%s (%d): %+v", id, pid, k)
		}
		if all := l.of(id); len(all) != 1 || all[0].Pid != pid {
			t.Errorf("%s: told %+v", id, all)
		} else if all[0].Constraint != "" {
			reported++
		}
	}
	t.Logf("%d kills, %d with the full report: %+v", many, reported, w.Stats())
	if s := w.Stats(); s.Kills < many || s.Unnamed != 0 || s.Messages != "" {
		t.Errorf("%+v", s)
	}
}
