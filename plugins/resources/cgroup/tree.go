package cgroup

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Root is the cgroup of all processes; false if no hierarchy is mounted. What it uses is
// what the machine does.
func (m Mounts) Root() (Group, bool) {
	g := Group{
		Path: "/", unified: m.unified, cpu: m.v1["cpu"], cpuacct: m.v1["cpuacct"], memory: m.v1["memory"],
		pids: m.v1["pids"], io: m.v1["blkio"], cpuset: m.v1["cpuset"],
	}
	return g, g.main() != ""
}

// main is the directory that says which cgroups there are: that of memory.
func (g Group) main() string {
	if g.memory != "" {
		return g.memory
	}
	return g.unified
}

// Below are the cgroups below one, down to a depth and no more than so many, those less
// deep first, each time by name. Into what skip is true of nobody looks. More is how many
// were left out, at least: of those that are too deep only the first level is counted.
func (g Group) Below(depth, most int, skip func(path string) bool) (all []Group, more int) {
	level := []Group{g}
	for ; len(level) > 0; depth-- {
		var next []Group
		for _, parent := range level {
			names := children(parent.main())
			for _, name := range names {
				child := path.Join(parent.Path, plain(name))
				switch {
				case skip(child):
				case depth <= 0 || len(all)+len(next) >= most:
					more++
				default:
					next = append(next, parent.child(name, child))
				}
			}
		}
		all, level = append(all, next...), next
	}
	return all, more
}

// child is a cgroup in one, in the hierarchies that have it.
func (g Group) child(name, at string) Group {
	in := func(dir string) string {
		if dir = filepath.Join(dir, name); dir == name || syscall.Access(dir, 0) != nil {
			return ""
		}
		return dir
	}
	return Group{
		Path: at, unified: in(g.unified), cpu: in(g.cpu), cpuacct: in(g.cpuacct), memory: in(g.memory),
		pids: in(g.pids), io: in(g.io), cpuset: in(g.cpuset),
	}
}

// children are the directories in one. The kernel counts them as links of it, so most
// often nothing has to be listed.
func children(dir string) (names []string) {
	var st syscall.Stat_t
	if dir == "" || syscall.Stat(dir, &st) != nil || st.Nlink == 2 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// plain is a name that can be shown: whoever makes a cgroup chooses it.
func plain(name string) string {
	if utf8.ValidString(name) && strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return name
	}
	return strings.Trim(strconv.QuoteToASCII(name), `"`)
}
