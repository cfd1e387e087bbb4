// Package containerdtest gives tests a containerd of their own: in a network
// namespace of its own, with all its files in a temporary directory, and with
// CRI, the interface that Kubernetes speaks to runtimes, on the same socket.
package containerdtest
