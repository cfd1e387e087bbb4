// Package e2e tells stories of whole hosts: intent in a real etcd, containers
// of a real engine, a real kernel, and the agent as a process. See the package
// host for what they stand on.
package e2e
