package oom

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNoCounter: the kernel does not count kills here.
var ErrNoCounter = errors.New("no counter of kills")

// Host is what the watcher asks of cgroups and processes; [OpenHost] is the
// real one.
type Host interface {
	// Kills is how many processes in a cgroup and below were ever killed
	// because memory ran out; the cgroup is given as /proc/<pid>/cgroup.
	Kills(cgroups string) (uint64, error)
	// Cgroups is /proc/<pid>/cgroup.
	Cgroups(pid int) (string, error)
}

// cgroupHost reads /proc and the mounted hierarchies.
type cgroupHost struct {
	// v1 is where the hierarchy of the memory controller is mounted, v2 the
	// unified one; "" if it is not.
	v1, v2 string
}

// OpenHost finds where cgroups are mounted.
func OpenHost() (Host, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	h := hostOf(string(mounts))
	if h == (cgroupHost{}) {
		return nil, errors.New("cgroups: none are mounted")
	}
	return h, nil
}

// hostOf reads a mountinfo: the mount point is the fifth field; behind the
// dash stand the type, the device, and the options with the controllers.
func hostOf(mountinfo string) (h cgroupHost) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		switch {
		case kind[0] == "cgroup2" && h.v2 == "":
			h.v2 = fields[4]
		case kind[0] == "cgroup" && contains(kind[2], "memory") && h.v1 == "":
			h.v1 = fields[4]
		}
	}
	return h
}

func (h cgroupHost) Cgroups(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return string(text), err
}

func (h cgroupHost) Kills(cgroups string) (uint64, error) {
	paths := memoryPaths(cgroups)
	switch {
	case len(paths) == 0:
		return 0, ErrNoCounter
	case h.v1 != "":
		return killsBelow(filepath.Join(h.v1, paths[0]), 0)
	}
	return killsIn(filepath.Join(h.v2, paths[0], "memory.events"))
}

// maxDepth bounds the walk through a container's own cgroups.
const maxDepth = 8

// killsBelow adds up a tree: version 1 counts a kill only where the victim
// was, version 2 all the way up.
func killsBelow(dir string, depth int) (uint64, error) {
	n, err := killsIn(filepath.Join(dir, "memory.oom_control"))
	if err != nil || depth == maxDepth {
		return n, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return n, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if more, err := killsBelow(filepath.Join(dir, e.Name()), depth+1); err == nil {
			n += more // one that just went counts no more
		}
	}
	return n, nil
}

// killsIn reads the counter of one cgroup.
func killsIn(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			return strconv.ParseUint(n, 10, 64)
		}
	}
	return 0, ErrNoCounter
}
