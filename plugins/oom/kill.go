package oom

import "time"

// Kill is one process that was killed because memory ran out.
type Kill struct {
	// Time is when it was heard of.
	Time time.Time
	// Container is the id of the victim's; "" of a process that is in none.
	Container string
	// Pid and Name of the victim; 0 and "" if only a counter tells of it.
	Pid  int
	Name string
	// First is whether the victim was the first process of the container. All: all
	// processes of it are killed, as its cgroup or one above is killed as one.
	First, All bool
	// Cgroup is the victim's, "" if it is not known.
	Cgroup string
	// Limit is the cgroup whose limit was hit, LimitContainer the container
	// that it belongs to, if any. Both are "" if the host ran out of memory, or
	// if it is not known; Constraint tells these apart.
	Limit          string
	LimitContainer string
	// Constraint is the kernel's word, such as CONSTRAINT_MEMCG, "" if it is
	// not known.
	Constraint string
	// Count is the counter of the container's cgroup, 0 if it is not known.
	Count uint64
	// Times is how many kills this tells of: several only where nothing but
	// the counter tells of them.
	Times int
	// Amends: it names a kill that was told before without a name.
	Amends bool

	group string // the cgroup that is killed as one, if one is
}

// Container is one life of a container, to be followed.
type Container struct {
	// ID is that of its runtime.
	ID string
	// Pid is that of its first process.
	Pid int
	// Cgroups is /proc/<pid>/cgroup of that process; "" has it read.
	Cgroups string
	// Told is the counter up to which kills of this life are known already,
	// from an earlier run of the agent.
	Told uint64
}
