package agent

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
	"github.com/plumb-net/plumb/plugins/resources"
)

// TestResources: what a container of a real engine uses and may use is told as the kernel
// and the engine have it, from its start to its end and anew after that.
func TestResources(t *testing.T) {
	e := dockertest.Start(t)
	id := e.Run("--name", "web", "--network", "none", "--memory", "64m", "--cpus", "0.5", "--pids-limit", "50")
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
	key := "docker:" + id
	until := func(what string, is func(d resources.Detail) bool) resources.Detail {
		t.Helper()
		var d resources.Detail
		for range 200 {
			var ok bool
			if d, ok = c.Detail(key); ok && is(d) {
				return d
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("it is not so that %s: %+v", what, d.Latest)
		return d
	}

	until("it was sampled", func(d resources.Detail) bool { return d.Last != nil })
	pid := e.Pid("web")
	e.Docker("exec", "web", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	used := time.Now()
	d := until("it was sampled twice after that", func(d resources.Detail) bool { return d.Samples > 1 && d.Last.Time.After(used) })
	l := d.Limits
	if l.Memory != 64<<20 || d.MemoryBound != 64<<20 || l.CPUQuota*2 != l.CPUPeriod || l.Pids != 50 {
		t.Errorf("limits %+v, memory at most %d", l, d.MemoryBound)
	}
	if d.Last.CPU == nil || d.Last.Memory == nil || d.Last.Pids == nil || *d.Last.Pids != 1 {
		t.Fatalf("%+v", d.Last)
	}
	// It sleeps, so the files still say the same.
	if got, want := uint64(d.Last.CPU.Usage), cgroupFigure(t, pid, "cpuacct", "cpuacct.usage", "cpu.stat"); got/1000 != want/1000 {
		t.Errorf("it used %d ns, the kernel says %d", got, want)
	}
	if got, want := d.Last.Memory.Usage, cgroupFigure(t, pid, "memory", "memory.usage_in_bytes", "memory.current"); got != want {
		t.Errorf("it has %d bytes, the kernel says %d", got, want)
	}
	if d.Minute.CPU.Max == 0 || d.Hour.CPU.Max == 0 || d.Day.Memory.P50 == 0 {
		t.Errorf("over a minute %+v, an hour %+v, a day %+v", d.Minute, d.Hour, d.Day)
	}

	e.Docker("kill", "web")
	d = until("it ended", func(d resources.Detail) bool { return !d.End.IsZero() })
	if d.End.Before(d.Start) || d.Last == nil || len(c.Latest()) != 0 {
		t.Errorf("from %v to %v, last %v", d.Start, d.End, d.Last)
	}
	e.Docker("start", "web")
	until("it began anew", func(now resources.Detail) bool {
		return now.End.IsZero() && now.Start.After(d.Start) && now.Last != nil
	})
	e.Docker("rm", "-f", "web")
	for range 200 {
		if _, kept := c.Detail(key); !kept {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("it is removed, and kept")
}

// cgroupFigure reads a figure of a process's cgroup: the only number of a file of version
// 1, or the first one of a file of version 2, in ns if it is a time.
func cgroupFigure(t *testing.T, pid int, controller, v1, v2 string) uint64 {
	t.Helper()
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(cgroups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		files := map[string]uint64{}
		switch parts[1] {
		case controller:
			files["/sys/fs/cgroup/"+controller+parts[2]+"/"+v1] = 1
		case "":
			scale := uint64(1)
			if v2 == "cpu.stat" {
				scale = 1000
			}
			files["/sys/fs/cgroup"+parts[2]+"/"+v2] = scale
		}
		for name, scale := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			n, err := strconv.ParseUint(strings.Fields(strings.TrimPrefix(string(text), "usage_usec "))[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n * scale
		}
	}
	t.Fatalf("process %d has no cgroup of %s", pid, controller)
	return 0
}
