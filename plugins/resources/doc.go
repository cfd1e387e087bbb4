// Package resources keeps what the containers of a host use: processor, memory,
// processes, devices, pressure and network, as the kernel counts them.
//
// A [Collector] follows the containers that the tracker knows. One goroutine samples
// all of them, each at its own pace: those that do nothing more seldom. Who asks gets
// what is a second old at most, so the more often somebody looks the closer the samples
// are, and nobody has to say that he watches.
//
//	tracker ──containers that run──► series of each ──► Latest, Detail
//	                                   ▲
//	cgroup files, net/dev ──samples────┘
//
// What is kept of a container is bounded: the last samples, and of each minute of the
// last day its mean and its peak. When it ends what it used can be asked for as long as
// the tracker knows it, and fewer than 50 have ended since.
package resources
