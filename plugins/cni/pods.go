package cni

import (
	"slices"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// podOf is the name by which values call the pod of a call: <namespace>/<name> as
// Kubernetes and those who do like it say in CNI_ARGS, otherwise the container's id.
func podOf(c Call) string {
	args := spec.ArgPairs(c.Args.Args)
	space, name := args["K8S_POD_NAMESPACE"], args["K8S_POD_NAME"]
	if name == "" {
		return c.ContainerID
	}
	if space == "" {
		return name
	}
	return space + "/" + name
}

// Pod is where the pod is that was last attached under that name, and which
// namespace that is, 0 if it is not known; "" if there is none.
func (s *Store) Pod(name string) (path string, inode uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Backward(s.pods[name]) {
		if a := s.all[k]; a.Phase != Removing {
			return a.Netns, a.Inode
		}
	}
	return "", 0
}

// index keeps the attachments of a pod in the order in which they came. The lock is
// held.
func (s *Store) index(a Attachment, there bool) {
	if a.Pod == "" {
		return
	}
	keys := slices.DeleteFunc(s.pods[a.Pod], func(k Key) bool { return k == a.Key && !there })
	if there && !slices.Contains(keys, a.Key) {
		keys = append(keys, a.Key)
	}
	if s.pods[a.Pod] = keys; len(keys) == 0 {
		delete(s.pods, a.Pod)
	}
}
