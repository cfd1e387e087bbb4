package oom

import (
	"regexp"
	"strings"
)

// memoryPaths are the places of a process, given as /proc/<pid>/cgroup: first
// that in the hierarchy that accounts memory, then the unified one where that
// is another. A process that is ending has left the former already.
func memoryPaths(cgroups string) (paths []string) {
	memory, unified := "", ""
	for line := range strings.Lines(cgroups) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case id == "0" && controllers == "":
			unified = path
		case contains(controllers, "memory"):
			memory = path
		}
	}
	for _, p := range []string{memory, unified} {
		if p != "" && p != "/" {
			paths = append(paths, p)
		}
	}
	return paths
}

func contains(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// within reports whether a cgroup is the other one or below it.
func within(path, top string) bool {
	return top != "" && top != "/" && strings.HasPrefix(path, top) &&
		(len(path) == len(top) || path[len(top)] == '/')
}

var fullID = regexp.MustCompile(`[0-9a-f]{64}`)

// idsIn are the ids of containers that a cgroup's path names, the outermost
// first. Runtimes write them in many ways, always whole:
//
//	/docker/<id>
//	/system.slice/docker-<id>.scope
//	/kubepods/burstable/pod<uid>/<id>
//	/kubepods.slice/…/cri-containerd-<id>.scope
//	/system.slice/containerd.service/kubepods-….slice:cri-containerd:<id>
func idsIn(path string) []string { return fullID.FindAllString(path, -1) }
