package cni

import (
	"slices"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Pod is a pod as a runtime names it in CNI_ARGS. UID is "" with runtimes that do not pass it.
type Pod struct{ Namespace, Name, UID string }

// podIn returns the pod that CNI_ARGS name.
func podIn(args string) Pod {
	pairs := spec.ArgPairs(args)
	return Pod{Namespace: pairs["K8S_POD_NAMESPACE"], Name: pairs["K8S_POD_NAME"], UID: pairs["K8S_POD_UID"]}
}

// podNames returns the names by which values call the pod of a container: <namespace>/<name>, and
// <namespace>/<name>/<uid> if the runtime passes all three; without a pod, the id of the container.
func podNames(args, container string) []string {
	p := podIn(args)
	switch {
	case p.Name == "":
		return []string{container}
	case p.Namespace == "":
		return []string{p.Name}
	case p.UID == "":
		return []string{p.Namespace + "/" + p.Name}
	}
	return []string{p.Namespace + "/" + p.Name, p.Namespace + "/" + p.Name + "/" + p.UID}
}

// PodChanged wakes the ADDs that wait for values of a pod, <namespace>/<name>.
func (s *Service) PodChanged(pod string) { s.events.tell(podKey(pod)) }

// pods returns the names of the pod of a call.
func (c Call) pods() []string { return podNames(c.Args.Args, c.ContainerID) }

// pods returns the names by which values call the pod of an attachment. Where a pool gives the pod its
// interface, only the name with the UID counts: values for whichever pod has the name are for a network
// of mode intent, and wait for the next pod.
func (a Attachment) pods() (names []string) {
	p := podIn(a.Args)
	switch {
	case a.Pod != "" && a.Args == "": // a record of an earlier release
		return []string{a.Pod}
	case a.Pod != "":
		return podNames(a.Args, a.Key.ContainerID)
	case p.Namespace != "" && p.Name != "" && p.UID != "":
		return podNames(a.Args, "")[1:]
	}
	return nil
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

// attached reports whether a pod is attached under that name.
func (s *Store) attached(pod string) bool {
	path, _ := s.Pod(pod)
	return path != ""
}

// index keeps the attachments of a pod in the order in which they came. The lock is
// held.
func (s *Store) index(a Attachment, there bool) {
	for _, pod := range a.pods() {
		keys := slices.DeleteFunc(s.pods[pod], func(k Key) bool { return k == a.Key && !there })
		if there && !slices.Contains(keys, a.Key) {
			keys = append(keys, a.Key)
		}
		if s.pods[pod] = keys; len(keys) == 0 {
			delete(s.pods, pod)
		}
	}
}
