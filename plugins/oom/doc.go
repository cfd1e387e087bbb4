// Package oom finds out whom the kernel killed because memory ran out, and in
// which container.
//
// There are two witnesses. The kernel's log names each victim, but it may be
// overwritten before it is read, and under a burst the kernel leaves out which
// cgroup the victim was in. The counters of cgroups miss nothing, but they name
// nobody, and go when the container does. A [Watcher] holds one against the other:
//
//	/dev/kmsg ──► parser ──► victims ──┐
//	                                   ├─► account of each container ──► Tell
//	cgroup counters ───────────────────┘              ▲
//	                                                  └── Ended, at a death
//
// A victim's container is known from its cgroup, else from its pid. What the
// counter of a container has seen and the log does not name within a short
// time is told as a kill without a name. Messages that are older than the
// start, and gaps, are counted, and then the counters decide.
//
// A kill is not a death: the victim may be any process of a container. Who keeps
// the deaths lays them to the kills.
package oom
