// Package cni tests plumb-cni with the programs that call it: containerd by CRI,
// cnitool, ctr and podman. Each test has a node of its own: a network namespace with a
// containerd and an agent, and all their files in temporary directories.
package cni
