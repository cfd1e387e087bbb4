package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBelow: the cgroups below one are found level by level, in the hierarchies that have
// them, and what is left out is counted.
func TestBelow(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{
		"memory/a/a1/a2", "memory/a/b1", "memory/docker/c1/init", "memory/\x1b[2J", "memory/z",
		"cpu/a/a1", "cpu/only-here", "unified/a",
	} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := parseMounts(fmt.Sprintf("1 1 0:1 / %[1]s/memory rw - cgroup cgroup rw,memory\n1 1 0:2 / %[1]s/cpu rw - cgroup cgroup rw,cpu\n1 1 0:3 / %[1]s/unified rw - cgroup2 cgroup2 rw\n", dir))
	g, ok := m.Root()
	if !ok || g.Path != "/" {
		t.Fatal(g, ok)
	}
	skip := func(path string) bool { return path == "/docker/c1" }
	show := func(depth, most int) string {
		var out []string
		all, more := g.Below(depth, most, skip)
		for _, g := range all {
			text := g.Path
			if g.cpu == "" {
				text += "-cpu"
			}
			if g.unified != "" {
				text += "+v2"
			}
			out = append(out, text)
		}
		return fmt.Sprint(strings.Join(out, " "), " ", more)
	}
	for _, tc := range []struct {
		depth, most int
		want        string
	}{
		{0, 99, " 4"},
		{1, 99, `/\x1b[2J-cpu /a+v2 /docker-cpu /z-cpu 2`},
		{2, 99, `/\x1b[2J-cpu /a+v2 /docker-cpu /z-cpu /a/a1 /a/b1-cpu 1`},
		{9, 99, `/\x1b[2J-cpu /a+v2 /docker-cpu /z-cpu /a/a1 /a/b1-cpu /a/a1/a2-cpu 0`},
		{9, 3, `/\x1b[2J-cpu /a+v2 /docker-cpu 3`},
	} {
		if got := show(tc.depth, tc.most); got != tc.want {
			t.Errorf("down to %d, no more than %d: %s\nwant %s", tc.depth, tc.most, got, tc.want)
		}
	}
	if _, ok := (Mounts{}).Root(); ok {
		t.Error("there is a root without any hierarchy")
	}
}

// TestMachine: what all processes use is told, also where the root has no file of it.
func TestMachine(t *testing.T) {
	m, err := Mounted()
	if err != nil {
		t.Fatal(err)
	}
	g, ok := m.Root()
	if !ok {
		lacks(t, "cgroups")
	}
	var r Reader
	both := []Group{g, {Path: "/", unified: t.TempDir()}}
	for _, g := range both {
		s, err := r.Stats(g)
		if err != nil || s.Memory == nil || s.Memory.Usage < 1<<20 || s.Memory.WorkingSet > s.Memory.Usage {
			t.Errorf("%+v: %+v, %v", g, s.Memory, err)
		}
	}
}
