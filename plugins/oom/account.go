package oom

import (
	"slices"
	"time"
)

// account is what is known of one life of a container.
type account struct {
	Container
	paths []string
	// told is the counter up to which kills were told, unnamed how many of
	// them without a name.
	told    uint64
	seen    uint64 // the counter when it was last read
	unnamed int
	// ahead is since when the counter has been ahead of what was told.
	ahead time.Time
	// endedAt is when its first process was said to have ended.
	endedAt time.Time
}

func newAccount(c Container) *account {
	a := &account{Container: c, told: c.Told}
	for _, p := range memoryPaths(c.Cgroups) {
		// The process may be gone, and its pid be that of one elsewhere.
		if ids := idsIn(p); len(ids) == 0 || slices.Contains(ids, c.ID) || !fullID.MatchString(c.ID) {
			a.paths = append(a.paths, p)
		}
	}
	if len(a.paths) == 0 {
		a.Cgroups = ""
	}
	return a
}

// has reports whether a cgroup is of the container.
func (a *account) has(cgroup string) bool {
	for _, p := range a.paths {
		if within(cgroup, p) {
			return true
		}
	}
	return false
}

// named books a kill that the log names; count is the counter after it, if it
// can be read. Which way it was told before decides what it amends.
func (a *account) named(k Kill, count uint64, counted bool) Kill {
	switch {
	case !counted || count > a.told:
		a.told++
	case a.unnamed > 0:
		a.unnamed--
		k.Amends, k.Times = true, 0
	}
	k.Count = a.told
	return k
}

// lacks compares the counter with what was told, and notes since when it has
// been ahead.
func (a *account) lacks(count uint64, now time.Time) uint64 {
	a.seen = count
	if count <= a.told {
		a.told = count // less if cgroups below went, and their counts with them
		a.ahead = time.Time{}
		return 0
	}
	if a.ahead.IsZero() {
		a.ahead = now
	}
	return count - a.told
}

// unnamedKills books what only the counter tells, and returns how many those are.
func (a *account) unnamedKills() int {
	n := int(a.seen - a.told)
	a.told = a.seen
	a.unnamed += n
	a.ahead = time.Time{}
	return n
}

// owns reports whether a victim's pid is the container's. That of a process which
// ended a while ago may be anybody's; the log may name it a little later.
func (a *account) owns(k *Kill, patience time.Duration) bool {
	return a.Pid == k.Pid && (a.endedAt.IsZero() || k.Time.Sub(a.endedAt) <= patience)
}
