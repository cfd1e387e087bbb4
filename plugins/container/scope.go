package container

import "strings"

// scope tells what a container's id means: ids of a runtime that has namespaces
// begin with them ("k8s.io:<id>"), and the namespace is a part of the runtime's
// name to all who look for the container ("containerd:k8s.io").
func scope(runtime, id string) (scoped, bare string) {
	namespace, bare, ok := strings.Cut(id, ":")
	if !ok {
		return runtime, id
	}
	return runtime + ":" + namespace, bare
}
