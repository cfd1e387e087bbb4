package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mounts says where hierarchies are mounted.
type Mounts struct {
	unified string
	v1      map[string]string // by controller
}

// Mounted finds where the hierarchies of this host are mounted.
func Mounted() (Mounts, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Mounts{}, err
	}
	return parseMounts(string(text)), nil
}

// parseMounts reads a mountinfo: the mount point is the fifth field; behind the dash
// stand the type, the device, and the options with the controllers.
func parseMounts(mountinfo string) Mounts {
	m := Mounts{v1: map[string]string{}}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		switch kind[0] {
		case "cgroup2":
			if m.unified == "" {
				m.unified = fields[4]
			}
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				if m.v1[option] == "" {
					m.v1[option] = fields[4]
				}
			}
		}
	}
	return m
}

// Group is one cgroup.
type Group struct {
	// Path is where it is below the root of its hierarchy; where there are several,
	// in that which accounts memory.
	Path string
	// The directories of its controllers, "" for what is not mounted. Of version 2
	// there is one for all.
	unified                                string
	cpu, cpuacct, memory, pids, io, cpuset string
}

// Find returns the cgroup of a container, given /proc/<pid>/cgroup of its first process.
// A container may move that process into a cgroup below its own, so a path that names
// the id ends there. It is false if the process is in no cgroup of its own: what is told
// of the root is told of the host.
func (m Mounts) Find(cgroups, id string) (Group, bool) {
	paths := map[string]string{}
	for line := range strings.Lines(cgroups) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		path = own(path, id)
		if !ok || path == "/" || !strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
			continue
		}
		for c := range strings.SplitSeq(controllers, ",") {
			paths[c] = path
		}
	}
	dir := func(controller string) string {
		if mount, path := m.v1[controller], paths[controller]; mount != "" && path != "" {
			return filepath.Join(mount, path)
		}
		return ""
	}
	g := Group{cpu: dir("cpu"), cpuacct: dir("cpuacct"), memory: dir("memory"), pids: dir("pids"), io: dir("blkio"), cpuset: dir("cpuset")}
	if path := paths[""]; m.unified != "" && path != "" {
		g.unified = filepath.Join(m.unified, path)
	}
	g.Path = paths["memory"]
	if g.memory == "" {
		g.Path = paths[""]
	}
	return g, g.Path != ""
}

// own cuts a path behind the first part that names the id.
func own(path, id string) string {
	at := strings.Index(path, id)
	if id == "" || at < 0 {
		return path
	}
	if end := strings.IndexByte(path[at:], '/'); end >= 0 {
		return path[:at+end]
	}
	return path
}
