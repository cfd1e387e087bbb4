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

// unscope gives the id back that scope took apart, if it was the runtime's.
func unscope(runtime, scoped, bare string) (id string, ours bool) {
	namespace, ours := strings.CutPrefix(scoped+":", runtime+":")
	return namespace + bare, ours
}
