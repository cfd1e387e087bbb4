// Package cgroup reads what a cgroup and the processes in it use, and what they may
// use, from the files of the kernel.
//
// A [Group] is one cgroup in all hierarchies that are mounted: the unified one of
// version 2, those of version 1, or both side by side, where each controller is in one
// of them. What a kernel does not tell is left out, and never zero.
package cgroup
