package resources

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/resources/cgroup"
)

// crowd is the real kernel, on which each container has a cgroup of its own, and all have
// one process.
type crowd struct {
	*linux
	groups map[string]cgroup.Group
}

func (c crowd) find(_ int, _ uint64, id string) (cgroup.Group, error) { return c.groups[id], nil }

// newCrowd makes cgroups in all hierarchies that there are.
func newCrowd(b *testing.B, n int) (crowd, *fakes) {
	if os.Geteuid() != 0 {
		b.Skip("it needs root")
	}
	h, err := openHost()
	if err != nil {
		b.Fatal(err)
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		b.Fatal(err)
	}
	w, _ := newFakes()
	c := crowd{linux: h, groups: map[string]cgroup.Group{}}
	for i := range n {
		id := fmt.Sprint("plumb-bench-", os.Getpid(), "-", i)
		var cgroups strings.Builder
		for line := range strings.Lines(string(mountinfo)) {
			before, after, _ := strings.Cut(line, " - ")
			kind, at := strings.Fields(after), strings.Fields(before)[4]
			switch {
			case kind[0] == "cgroup2":
				cgroups.WriteString("0::/" + id + "\n")
			case kind[0] == "cgroup" && !strings.Contains(kind[2], "cpuset"):
				_, options, _ := strings.Cut(kind[2], ",")
				cgroups.WriteString("1:" + options + ":/" + id + "\n")
			default:
				continue
			}
			dir := filepath.Join(at, id)
			if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
				b.Skip("it needs cgroups that can be made: ", err)
			}
			b.Cleanup(func() { _ = os.Remove(dir) })
		}
		g, ok := h.mounts.Find(cgroups.String(), id)
		if !ok {
			b.Fatal("no cgroup")
		}
		c.groups[id] = g
		w.known["docker:"+id] = &models.Container{Runtime: "docker", ContainerId: id, Pid: uint32(os.Getpid()), Netns: h.own}
	}
	h.own = 0 // so that the interfaces of our namespace are read for each
	return c, w
}

// BenchmarkContainers measures what 200 containers cost that are sampled each 10 s, beside
// the bound: a hundredth of a processor.
func BenchmarkContainers(b *testing.B) {
	const containers, interval, bound = 200, 10 * time.Second, 1.0
	h, w := newCrowd(b, containers)
	own, err := netnsOf(strconv.Itoa(os.Getpid()))
	if err != nil {
		b.Fatal(err)
	}
	for _, k := range w.known {
		k.Netns = own
	}
	c := newCollector(w, interval, 0, h, func() time.Time { return w.clock })
	c.follow()
	cpu := -processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		w.clock = w.clock.Add(slowest * interval) // all are due
		c.work()
	}
	cpu += processorTime(b)
	for _, l := range c.Latest() {
		if l.Samples < uint64(b.N) || l.Last.Memory == nil {
			b.Fatalf("%+v", l)
		}
	}
	share := 100 * cpu.Seconds() / float64(b.N) / interval.Seconds()
	if share > bound {
		b.Errorf("%d busy containers cost %.2f %% of a processor, the bound is %.0f %%", containers, share, bound)
	}
	b.ReportMetric(share, "%core")
	b.ReportMetric(bound, "%core-bound")
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N)/containers, "us/sample")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
