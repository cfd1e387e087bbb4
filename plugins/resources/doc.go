// Package resources keeps what the containers of a host use, and the machine and its other
// cgroups: processor, memory, processes, devices, pressure and network, as the kernel counts
// them, and how full file systems are.
//
// A [Collector] follows the containers that the tracker knows, and looks which other
// cgroups there are. One goroutine samples all of them, each at its own pace: those that do
// nothing more seldom. Who asks gets what is a second old at most, so the more often
// somebody looks the closer the samples are, and nobody has to say that he watches. Another
// goroutine walks what containers have written, which takes long.
//
//	tracker ──containers that run──┐
//	cgroup tree ──other cgroups────┴──► series of each ──► Latest, Machine, All, Detail
//	                                      ▲
//	cgroup files, net/dev ──samples───────┤
//	file systems, layers ──how full───────┘
//
// What is kept of each is bounded: the last samples, and of each minute of the last day its
// mean and its peak; and so is the number of cgroups that are no container's. When a
// container ends what it used can be asked for as long as the tracker knows it, and fewer
// than 50 have ended since.
package resources
