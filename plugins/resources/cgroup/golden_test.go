package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestFiles reads what the texts of testdata say.
func TestFiles(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasPrefix(path, filepath.Join("testdata", "fuzz")) {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "read":
				return readFixture(t, d.CmdArgs[0].Key == "v2", d.Input)
			case "find":
				mounts, cgroup, _ := strings.Cut(d.Input, "== cgroup\n")
				var id string
				d.ScanArgs(t, "id", &id)
				g, ok := parseMounts(mounts).Find(cgroup, id)
				return fmt.Sprintf("%v %+v\n", ok, g)
			case "netdev":
				var out strings.Builder
				for _, i := range netDev([]byte(d.Input), noLoopback) {
					fmt.Fprintf(&out, "%+v\n", i)
				}
				return out.String()
			}
			return "unknown command"
		})
	})
}

// readFixture reads a directory with the files that a text has, each below == NAME.
func readFixture(t *testing.T, v2 bool, files string) string {
	dir := t.TempDir()
	for part := range strings.SplitSeq(files, "== ") {
		if name, content, ok := strings.Cut(part, "\n"); ok {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	g := Group{unified: dir}
	if !v2 {
		g = Group{unified: dir, cpu: dir, cpuacct: dir, memory: dir, pids: dir, io: dir, cpuset: dir}
	}
	var r Reader
	s, err := r.Stats(g)
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.Limits(g)
	if err != nil {
		t.Fatal(err)
	}
	return text(s) + fmt.Sprintf("limits %+v\n", l)
}

func text(s Stats) string {
	var out strings.Builder
	if s.CPU != nil {
		fmt.Fprintf(&out, "cpu %+v\n", *s.CPU)
	}
	if s.Memory != nil {
		fmt.Fprintf(&out, "memory %+v\n", *s.Memory)
	}
	if s.Pids != nil {
		fmt.Fprintf(&out, "pids %d\n", *s.Pids)
	}
	for _, d := range s.IO {
		fmt.Fprintf(&out, "io %+v\n", d)
	}
	for i, p := range []*Stall{s.Pressure.CPU, s.Pressure.Memory, s.Pressure.IO} {
		if p != nil {
			fmt.Fprintf(&out, "pressure %s %+v\n", []string{"cpu", "memory", "io"}[i], *p)
		}
	}
	return out.String()
}

// TestLowestLimit: a limit of a cgroup above it counts as well, in version 2 as well.
func TestLowestLimit(t *testing.T) {
	dir := t.TempDir()
	pod := filepath.Join(dir, "pod")
	own := filepath.Join(pod, "own")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	var r Reader
	for _, tc := range []struct {
		pod, own string
		want     uint64
	}{{"max", "max", 0}, {"100", "max", 100}, {"max", "200", 200}, {"100", "200", 100}, {"300", "200", 200}} {
		for at, limit := range map[string]string{pod: tc.pod, own: tc.own} {
			if err := os.WriteFile(filepath.Join(at, "memory.max"), []byte(limit+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if l, err := r.Limits(Group{unified: own}); err != nil || l.MemoryAllowed != tc.want {
			t.Errorf("%+v: %d, %v", tc, l.MemoryAllowed, err)
		}
	}
}

// TestGone: a cgroup that ended, before or while it is read, has no figures.
func TestGone(t *testing.T) {
	dir := t.TempDir()
	g := Group{unified: filepath.Join(dir, "gone")}
	var r Reader
	if s, err := r.Stats(g); err != ErrGone {
		t.Errorf("%+v %v", s, err)
	}
	if l, err := r.Limits(g); err != ErrGone {
		t.Errorf("%+v %v", l, err)
	}
	if all, err := r.Interfaces(os.Getpid(), 1); err != ErrGone {
		t.Errorf("another namespace: %v %v", all, err)
	}
}

// FuzzParse: whatever a file holds, what is read of it is bounded, and makes sense.
func FuzzParse(f *testing.F) {
	f.Add([]byte("usage_usec 5\n"))
	f.Add([]byte("8:0 rbytes=1 wbytes=2\n8:1 Read 5\n"))
	f.Add([]byte("some avg10=0.00 avg60=0.00 avg300=0.00 total=3\n"))
	f.Add([]byte("  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"))
	f.Add([]byte("18446744073709551616 100000"))
	f.Add([]byte("MemTotal:       16384000 kB\nMemFree:  1 kB\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s := stall(text); s != nil && (s.Some < 0 || s.Full < 0) {
			t.Errorf("%+v", *s)
		}
		devices := ioStat(text)
		blkio(&devices, text, func(d *DeviceIO) *uint64 { return &d.ReadBytes }, func(d *DeviceIO) *uint64 { return &d.WriteBytes })
		if len(devices) > maxDevices {
			t.Errorf("%d devices", len(devices))
		}
		if n := len(netDev(text, noLoopback)); n > maxInterfaces {
			t.Errorf("%d interfaces", n)
		}
		if quota, period := cpuMax(text); quota < 0 || period < 0 {
			t.Errorf("%v of %v", quota, period)
		}
		if n := len(cpuList(text)); n > maxCPUs {
			t.Errorf("%d bytes of processors", n)
		}
		if n, ok := number(text); ok && fmt.Sprint(n) != strings.TrimLeft(strings.TrimSuffix(string(text), "\n"), "0") && n != 0 {
			t.Errorf("%q is %d", text, n)
		}
		parseMounts(string(text)).Find(string(text), "5f")
		pairs(text, func([]byte, uint64) {})
		machine(text)
	})
}
