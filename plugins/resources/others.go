package resources

import (
	"maps"
	"path"
	"slices"
	"time"

	"github.com/plumb-net/plumb/plugins/resources/cgroup"
)

// surveyHold is how long the cgroups that there are are taken for all, while nobody asks.
const surveyHold = time.Minute

// others are the cgroups that are no container's.
type others struct {
	cgroups  map[string]*series // by path
	surveyed time.Time
	// leftOut is how many of the machine are not sampled.
	leftOut int
}

// resurvey is survey, unless that was just done.
func (c *Collector) resurvey() {
	if c.now().Sub(c.surveyed) >= fresh {
		c.survey()
	}
}

// paths are those of the cgroups of containers.
func (c *Collector) paths() map[string]bool {
	all := map[string]bool{}
	for _, s := range c.all {
		all[s.group.Path] = true
	}
	return all
}

// survey finds out which cgroups there are beside those of containers. Each is known by
// its path: if another has it by now, its counters begin anew.
func (c *Collector) survey() {
	c.surveyed = c.now()
	found := map[string]bool{}
	take := func(g cgroup.Group, within string) bool {
		if !found[g.Path] && len(found) == cgroupsMost {
			return false
		}
		found[g.Path] = true
		if s := c.cgroups[g.Path]; s == nil || s.within != within {
			c.cgroups[g.Path] = &series{group: g, within: within, due: c.now()}
		}
		return true
	}
	containers := c.paths()
	known := func(at string) bool { return containers[at] }
	if root, ok := c.host.root(); ok {
		if c.cgroups[root.Path] == nil {
			tell(c.came)
		}
		take(root, "")
		all, more := c.host.below(root, c.depth, machineMost, known)
		for _, g := range all {
			take(g, "")
		}
		c.leftOut = more
	}
	for _, key := range slices.Sorted(maps.Keys(c.all)) {
		s := c.all[key]
		if !s.live() {
			continue
		}
		all, more := c.host.below(s.group, withinDepth, withinMost, known)
		for _, g := range all {
			if !take(g, key) {
				more++
			}
		}
		s.leftOut = more
	}
	maps.DeleteFunc(c.cgroups, func(at string, _ *series) bool { return !found[at] })
}

// forgetOthers drops the cgroups of containers that do not run any more, and those that were
// found before it was known that a container has them.
func (c *Collector) forgetOthers() {
	containers := c.paths()
	maps.DeleteFunc(c.cgroups, func(at string, s *series) bool {
		if s.within != "" {
			of := c.all[s.within]
			return of == nil || !of.live()
		}
		for ; at != "/"; at = path.Dir(at) {
			if containers[at] {
				return true
			}
		}
		return false
	})
}

// latestOf is how much the cgroups use of which want is true, sorted by path.
func (c *Collector) latestOf(want func(*series) bool) (out []Latest) {
	for _, at := range slices.Sorted(maps.Keys(c.cgroups)) {
		s := c.cgroups[at]
		if !want(s) {
			continue
		}
		c.freshen(s)
		if c.cgroups[at] == s && s.last() != nil {
			out = append(out, s.latest(at, c.host.memory()))
		}
	}
	return out
}

// Machine is how much the machine uses, of which the path is /, and its other cgroups,
// sorted by path, and how many more there are, at least. They are sampled before, like
// those of Latest.
func (c *Collector) Machine() (all []Latest, leftOut int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resurvey()
	return c.latestOf(func(s *series) bool { return s.within == "" }), c.leftOut
}

// All is how much everything uses: containers, what is within them, and the machine.
func (c *Collector) All() []Latest {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resurvey()
	return append(c.latest(), c.latestOf(func(*series) bool { return true })...)
}
