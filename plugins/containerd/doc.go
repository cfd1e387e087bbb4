// Package containerd makes containerd a runtime of the container tracker.
//
// It speaks containerd's own API, in all of its namespaces at once: a container
// is known as <namespace>:<id>, for names are unique only within a namespace.
// What containerd itself forgets, when a run began and how it ended once its
// task was deleted, is remembered here (see lives).
package containerd
