package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
	"github.com/plumb-net/plumb/plugins/resources"
)

// sampled is a container of a real engine that is sampled.
type sampled struct {
	*testing.T
	c   *resources.Collector
	key string
}

// until asks until it is so.
func (u sampled) until(what string, is func(d resources.Detail) bool) resources.Detail {
	u.Helper()
	var d resources.Detail
	for range 400 {
		var ok bool
		if d, ok = u.c.Detail(u.key); ok && is(d) {
			return d
		}
		time.Sleep(50 * time.Millisecond)
	}
	u.Fatalf("it is not so that %s: %+v", what, d.Latest)
	return d
}

// now asks for a sample that is taken from now on.
func (u sampled) now() resources.Detail {
	u.Helper()
	asked := time.Now()
	return u.until("it is sampled", func(d resources.Detail) bool { return d.Last != nil && d.Last.Time.After(asked) })
}

// memorySlack is what a figure of memory may be off by, since each processor has pages
// that are counted ahead.
const memorySlack = 1 << 20

// TestResources: what a container of a real engine uses and may use is told as the kernel
// and the engine have it, from its start to its end and anew after that.
func TestResources(t *testing.T) {
	e := dockertest.Start(t)
	id := e.Run("--name", "web", "--network", "none", "--memory", "64m", "--cpus", "0.5", "--pids-limit", "50")
	e.Docker("exec", "web", "sh", "-c", "dd if=/dev/zero of=/file bs=1M count=3; dd if=/dev/zero of=/dev/shm/held bs=1M count=20")
	tracker, err := container.New(container.Options{}, dial(t, e))
	if err != nil {
		t.Fatal(err)
	}
	c, err := resources.New(tracker, time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	running.Go(func() { _ = tracker.Run(ctx) })
	running.Go(func() { _ = c.Run(ctx) })
	u := sampled{T: t, c: c, key: "docker:" + id}

	u.until("it was sampled", func(d resources.Detail) bool { return d.Last != nil })
	e.Docker("exec", "--detach", "web", "sh", "-c", "while :; do :; done")
	k := cgroupFiles{T: t, pid: e.Pid("web")}
	for range 4 {
		sameAsFiles(u, k)
	}
	sameAsEngine(u, e)
	withinIt(u, k)

	d := u.now()
	l := d.Limits
	if l.Memory != 64<<20 || d.MemoryBound != 64<<20 || l.CPUQuota*2 != l.CPUPeriod || l.Pids != 50 {
		t.Errorf("limits %+v, memory at most %d", l, d.MemoryBound)
	}
	if d.Minute.CPU.Max == 0 || d.Hour.CPU.Max == 0 || d.Day.Memory.P50 < 20<<20 {
		t.Errorf("over a minute %+v, an hour %+v, a day %+v", d.Minute, d.Hour, d.Day)
	}
	d = u.until("its layer was walked", func(d resources.Detail) bool { return len(d.Filesystems) == 1 })
	upper := e.Docker("inspect", "--format", "{{.GraphDriver.Data.UpperDir}}", "web")
	out, err := exec.Command("du", "--block-size=1", "-s", upper).Output()
	if err != nil {
		t.Fatal(err)
	}
	if fs := d.Filesystems[0]; fmt.Sprint(fs.Used) != strings.Fields(string(out))[0] || fs.Used < 3<<20 || fs.Capacity < fs.Used || fs.InodesUsed < 2 {
		t.Errorf("it wrote %+v, du says %s", fs, out)
	}
	all, _ := c.Machine()
	if m := all[0]; m.Key != "/" || m.Last.CPU.Usage < d.Last.CPU.Usage || m.Last.Memory.WorkingSet < d.Last.Memory.WorkingSet {
		t.Errorf("the machine uses %+v", m.Last)
	}

	e.Docker("kill", "web")
	d = u.until("it ended", func(d resources.Detail) bool { return !d.End.IsZero() })
	if d.End.Before(d.Start) || d.Last == nil || len(c.Latest()) != 0 || len(d.Within) != 0 {
		t.Errorf("from %v to %v, last %v, within %v", d.Start, d.End, d.Last, d.Within)
	}
	e.Docker("start", "web")
	u.until("it began anew", func(now resources.Detail) bool {
		return now.End.IsZero() && now.Start.After(d.Start) && now.Last != nil
	})
	e.Docker("rm", "-f", "web")
	for range 200 {
		if _, kept := c.Detail(u.key); !kept {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("it is removed, and kept")
}

// sameAsFiles: what is told lies between what the files say before and after it, while the
// container works.
func sameAsFiles(u sampled, k cgroupFiles) {
	u.Helper()
	type figures struct{ cpu, memory, faults, pids uint64 }
	read := func() figures {
		return figures{
			cpu:    k.figure("cpuacct", "cpuacct.usage", "cpu.stat usage_usec"),
			memory: k.figure("memory", "memory.usage_in_bytes", "memory.current"),
			faults: k.figure("memory", "memory.stat total_pgfault", "memory.stat pgfault"),
			pids:   k.figure("pids", "pids.current", "pids.current"),
		}
	}
	before := read()
	d := u.now()
	after := read()
	if d.Last.CPU == nil || d.Last.Memory == nil || d.Last.Pids == nil {
		u.Fatalf("%+v", d.Last)
	}
	for _, f := range []struct {
		what                      string
		before, is, after, leeway uint64
	}{
		{"processor time", before.cpu, uint64(d.Last.CPU.Usage), after.cpu, 0},
		{"memory", min(before.memory, after.memory), d.Last.Memory.Usage, max(before.memory, after.memory), memorySlack},
		{"page faults", before.faults, d.Last.Memory.PageFaults, after.faults, 0},
		{"processes", min(before.pids, after.pids), *d.Last.Pids, max(before.pids, after.pids), 0}, // docker exec starts some that end
	} {
		if f.is+f.leeway < f.before || f.is > f.after+f.leeway {
			u.Errorf("%s: %d, the kernel says %d before and %d after it", f.what, f.is, f.before, f.after)
		}
	}
	if before.cpu == after.cpu || before.memory < 20<<20 {
		u.Errorf("the container does nothing: %+v, %+v", before, after)
	}
}

// sameAsEngine: what the engine says lies between two samples.
func sameAsEngine(u sampled, e *dockertest.Engine) {
	u.Helper()
	var says struct {
		CPU struct {
			Usage struct {
				Total uint64 `json:"total_usage"`
			} `json:"cpu_usage"`
		} `json:"cpu_stats"`
		Memory struct{ Usage, Limit uint64 }   `json:"memory_stats"`
		Pids   struct{ Current, Limit uint64 } `json:"pids_stats"`
	}
	before := u.now()
	if err := e.Churn(u.T, 0).Call(u.Context(), "GET", "containers/web/stats?stream=false&one-shot=true", nil, &says); err != nil {
		u.Fatal(err)
	}
	shown := strings.Fields(e.Docker("stats", "--no-stream", "--format", "{{.MemUsage}} {{.PIDs}}", "web"))
	after := u.now()
	if cpu := says.CPU.Usage.Total; cpu < uint64(before.Last.CPU.Usage) || cpu > uint64(after.Last.CPU.Usage) {
		u.Errorf("the engine says it used %d ns, we %d before and %d after that", cpu, before.Last.CPU.Usage, after.Last.CPU.Usage)
	}
	if m := says.Memory; m.Limit != after.MemoryBound || apart(m.Usage, before.Last.Memory.Usage) > memorySlack {
		u.Errorf("the engine says it has %+v, we %d of %d", m, before.Last.Memory.Usage, after.MemoryBound)
	}
	if p := says.Pids; p.Current != *after.Last.Pids || p.Limit != after.Limits.Pids {
		u.Errorf("the engine says it has %+v processes, we %d of %d", p, *after.Last.Pids, after.Limits.Pids)
	}
	// What the command shows is the working set, as 20.31MiB.
	mib, err := strconv.ParseFloat(strings.TrimSuffix(shown[0], "MiB"), 64)
	if err != nil || apart(uint64(mib*(1<<20)), after.Last.Memory.WorkingSet) > memorySlack || shown[3] != fmt.Sprint(*after.Last.Pids) {
		u.Errorf("docker stats shows %q, we have %d in %d processes", shown, after.Last.Memory.WorkingSet, *after.Last.Pids)
	}
}

func apart(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// withinIt: a cgroup that is made in that of the container is told with it.
func withinIt(u sampled, k cgroupFiles) {
	u.Helper()
	dir := filepath.Join(filepath.Dir(k.file("cpuacct", "cpuacct.usage", "cpu.stat")), "inner")
	made := []string{dir, filepath.Join(filepath.Dir(k.file("memory", "memory.stat", "memory.stat")), "inner")}
	for _, dir := range made {
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			u.Fatal(err)
		}
	}
	procs, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "cgroup.procs"))
	if err != nil {
		u.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(procs)) {
		if pid == fmt.Sprint(k.pid) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pid), 0); err != nil {
			u.Fatal(err)
		}
	}
	d := u.until("what is within it works", func(d resources.Detail) bool {
		return len(d.Within) == 1 && d.Within[0].Last.CPU != nil && d.Within[0].Last.CPU.Usage > 0 && d.Within[0].Rates != nil
	})
	if in := d.Within[0]; in.Key != d.Cgroup+"/inner" || in.Rates.CPU == 0 || in.Last.CPU.Usage > u.now().Last.CPU.Usage || d.LeftOut != 0 {
		u.Errorf("within it: %+v, and %d more", in, d.LeftOut)
	}
}

// cgroupFiles reads those of the cgroup of a process.
type cgroupFiles struct {
	*testing.T
	pid int
}

// file is that of the controller's hierarchy of version 1, if there is one, else of version
// 2.
func (k cgroupFiles) file(controller, v1, v2 string) string {
	k.Helper()
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", k.pid))
	if err != nil {
		k.Fatal(err)
	}
	unified := ""
	for line := range strings.Lines(string(cgroups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for c := range strings.SplitSeq(parts[1], ",") {
			if c == controller {
				return filepath.Join("/sys/fs/cgroup", controller, parts[2], v1)
			}
		}
		if parts[1] == "" {
			unified = filepath.Join("/sys/fs/cgroup", parts[2], v2)
		}
	}
	return unified
}

// figure is the only number of a file, or the one behind a name; times are in ns.
func (k cgroupFiles) figure(controller, v1, v2 string) uint64 {
	k.Helper()
	v1, name1, _ := strings.Cut(v1, " ")
	v2, name2, _ := strings.Cut(v2, " ")
	file := k.file(controller, v1, v2)
	name, scale := name2, uint64(1)
	if filepath.Base(file) == v1 && strings.Contains(file, "/"+controller+"/") {
		name = name1
	} else if strings.HasSuffix(name2, "_usec") {
		scale = 1000
	}
	text, err := os.ReadFile(file)
	if err != nil {
		k.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if name != "" && fields[0] != name {
			continue
		}
		n, err := strconv.ParseUint(fields[len(fields)-1], 10, 64)
		if err != nil {
			k.Fatal(err)
		}
		return n * scale
	}
	k.Fatalf("%s has no %s", file, name)
	return 0
}
