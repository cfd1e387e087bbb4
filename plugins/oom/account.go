package oom

import (
	"slices"
	"time"
)

const (
	// keptKills bounds what is remembered of one life of a container.
	keptKills = 16
	// fresh is how long after an unnamed kill a death may be its doing.
	fresh = 5 * time.Second
)

// account is what is known of one life of a container.
type account struct {
	Container
	paths []string
	// told is the counter up to which kills were told, unnamed how many of
	// them without a name, the last at unnamedAt.
	told      uint64
	seen      uint64 // the counter when it was last read
	unnamed   int
	unnamedAt time.Time
	// ahead is since when the counter has been ahead of what was told, began
	// since when the account is kept.
	ahead time.Time
	began time.Time
	kills []Kill // the last ones
	// ended: its first process is dead, and its pid may be anybody's.
	ended bool
	// since is the watcher's count of losses when this began: with more of
	// them, messages about this life may be missing.
	since uint64
}

func newAccount(c Container, losses uint64, now time.Time) *account {
	a := &account{Container: c, told: c.Told, since: losses, began: now}
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

// has tells whether a cgroup is of the container.
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
	a.remember(k)
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

// unnamedKills books what only the counter tells, and returns how many those
// are. What was so when the account began is not fresh.
func (a *account) unnamedKills(now time.Time) int {
	n := int(a.seen - a.told)
	a.told = a.seen
	a.unnamed += n
	if a.ahead != a.began {
		a.unnamedAt = now
	}
	a.ahead = time.Time{}
	return n
}

// lately tells whether a kill without a name may be what just ended it.
func (a *account) lately(now time.Time) bool {
	return a.unnamed > 0 && !a.unnamedAt.IsZero() && now.Sub(a.unnamedAt) < fresh
}

func (a *account) remember(k Kill) {
	if len(a.kills) == keptKills {
		a.kills = append(a.kills[:0], a.kills[1:]...)
	}
	a.kills = append(a.kills, k)
}

// first is the kill of the container's first process, if it is known.
func (a *account) first() *Kill {
	for i := range a.kills {
		if a.kills[i].First {
			return &a.kills[i]
		}
	}
	return nil
}
