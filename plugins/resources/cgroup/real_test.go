package cgroup

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lacks ends a test that needs what this machine has not. In CI that fails.
func lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("it needs " + what)
	}
	t.Skip("it needs " + what)
}

// newGroup makes a cgroup in all hierarchies, and puts processes into it.
func newGroup(t testing.TB, name string, pids ...int) Group {
	t.Helper()
	if os.Geteuid() != 0 {
		lacks(t, "root")
	}
	m, err := Mounted()
	if err != nil {
		t.Fatal(err)
	}
	var cgroups strings.Builder
	path := "/plumb-test-" + name + "-" + strconv.Itoa(os.Getpid())
	for controller := range m.v1 {
		fmt.Fprintf(&cgroups, "1:%s:%s\n", controller, path)
	}
	cgroups.WriteString("0::" + path + "\n")
	g, ok := m.Find(cgroups.String(), "")
	if !ok {
		lacks(t, "cgroups")
	}
	if g.cpuset != "" && len(pids) > 0 {
		g.cpuset = "" // a new one has no processors, and takes no processes
	}
	for _, dir := range []string{g.unified, g.cpu, g.cpuacct, g.memory, g.pids, g.io} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			lacks(t, "cgroups that can be made: "+err.Error())
		}
		t.Cleanup(func() {
			for range 100 {
				if os.Remove(dir) == nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		for _, pid := range pids {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
				lacks(t, "cgroups that take a process: "+err.Error())
			}
		}
	}
	return g
}

// TestSameAsTheFiles: what is read is what the files hold, read in another way, while
// nothing in the cgroup runs.
func TestSameAsTheFiles(t *testing.T) {
	const busy = "read go; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; kill -STOP $$; sleep 60"
	cmd := exec.Command("sh", "-c", busy)
	start, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	t.Cleanup(end)
	g := newGroup(t, "same", cmd.Process.Pid)
	t.Cleanup(end) // before the cgroup
	fmt.Fprintln(start)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatal(ws, err)
	}
	time.Sleep(100 * time.Millisecond) // pressure is averaged by the kernel

	var r Reader
	s, err := r.Stats(g)
	if err != nil {
		t.Fatal(err)
	}
	if s.CPU == nil || s.Memory == nil || s.Pids == nil {
		lacks(t, "the controllers cpu, memory and pids for new cgroups")
	}
	if s.CPU.Usage < 20*time.Millisecond || s.Memory.Usage == 0 || *s.Pids != 1 {
		t.Errorf("a process that counts used %+v, %+v, and is %d", *s.CPU, *s.Memory, *s.Pids)
	}
	same := func(what string, got uint64, want uint64) {
		if got != want {
			t.Errorf("%s: read %d, the file says %d", what, got, want)
		}
	}
	us := func(d time.Duration) uint64 { return uint64(d.Microseconds()) }
	if g.memory != "" {
		same("cpu usage", uint64(s.CPU.Usage), figure(t, g.cpuacct, "cpuacct.usage", ""))
		same("cpu periods", s.CPU.Periods, figure(t, g.cpu, "cpu.stat", "nr_periods"))
		same("memory usage", s.Memory.Usage, figure(t, g.memory, "memory.usage_in_bytes", ""))
		same("working set", s.Memory.WorkingSet, s.Memory.Usage-figure(t, g.memory, "memory.stat", "total_inactive_file"))
		same("rss", s.Memory.RSS, figure(t, g.memory, "memory.stat", "total_rss"))
		same("cache", s.Memory.Cache, figure(t, g.memory, "memory.stat", "total_cache"))
		same("page faults", s.Memory.PageFaults, figure(t, g.memory, "memory.stat", "total_pgfault"))
		same("failures", s.Memory.Failures, figure(t, g.memory, "memory.failcnt", ""))
		same("pids", *s.Pids, figure(t, g.pids, "pids.current", ""))
	} else {
		same("cpu usage", us(s.CPU.Usage), figure(t, g.unified, "cpu.stat", "usage_usec"))
		same("memory usage", s.Memory.Usage, figure(t, g.unified, "memory.current", ""))
		same("working set", s.Memory.WorkingSet, s.Memory.Usage-figure(t, g.unified, "memory.stat", "inactive_file"))
		same("rss", s.Memory.RSS, figure(t, g.unified, "memory.stat", "anon"))
		same("failures", s.Memory.Failures, figure(t, g.unified, "memory.events", "max"))
		same("pids", *s.Pids, figure(t, g.unified, "pids.current", ""))
	}
	if g.unified != "" && s.Pressure.CPU != nil {
		text, err := os.ReadFile(filepath.Join(g.unified, "cpu.pressure"))
		if err != nil {
			t.Fatal(err)
		}
		total := fmt.Sprintf("total=%d\n", us(s.Pressure.CPU.Some))
		if line, _, _ := strings.Cut(string(text), "full"); !strings.HasSuffix(line, total) {
			t.Errorf("pressure: read %s the file says %s", total, line)
		}
	}
}

// TestBelowReal: what is made in a cgroup is found in it, and what it uses can be read.
func TestBelowReal(t *testing.T) {
	g := newGroup(t, "below")
	none := func(string) bool { return false }
	if all, more := g.Below(3, 9, none); len(all)+more != 0 {
		t.Errorf("in a new one are %+v, and %d more", all, more)
	}
	for _, dir := range []string{"inner", "inner/deep"} {
		dir = filepath.Join(g.main(), dir)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	all, more := g.Below(1, 9, none)
	if len(all) != 1 || all[0].Path != g.Path+"/inner" || more != 1 {
		t.Fatalf("below it are %+v, and %d more", all, more)
	}
	var r Reader
	if s, err := r.Stats(all[0]); err != nil || g.memory != "" && s.Memory == nil || g.memory == "" && s.CPU == nil {
		t.Errorf("it uses %+v, %v", s, err)
	}
}

// figure reads a number of a file: all of it, or what stands behind a name.
func figure(t *testing.T, dir, file, name string) uint64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	for i, f := range fields {
		if name == "" || f == name {
			if name != "" {
				i++
			}
			n, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %s", file, name)
	return 0
}

// TestOwnInterfaces: those of the namespace of a process, as the kernel has them.
func TestOwnInterfaces(t *testing.T) {
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/net", &st); err != nil {
		t.Fatal(err)
	}
	var r Reader
	all, err := r.Interfaces(os.Getpid(), st.Ino)
	if err != nil {
		t.Fatal(err)
	}
	there, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, i := range there {
		if i.Flags&net.FlagLoopback == 0 {
			want = append(want, i.Name)
		}
	}
	for _, i := range all {
		got = append(got, i.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) <= maxInterfaces && !slices.Equal(got, want) {
		t.Errorf("read %v, there are %v", got, want)
	}
	up, err := r.Uplinks()
	if err != nil || len(up) > len(all) || len(up) == 0 && len(all) > 0 {
		t.Errorf("to the outside lead %+v, %v", up, err)
	}
}

// BenchmarkRead measures what a sample of one cgroup costs.
func BenchmarkRead(b *testing.B) {
	g := newGroup(b, "bench")
	var r Reader
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Stats(g); err != nil {
			b.Fatal(err)
		}
	}
}
