package selector

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// file is by pid, path or pod: a file leads to the namespace, and what it leads to is
// observed as a kind of its own.
type file struct{ in *models.Namespace }

func (w file) need(k scheduler.Key) scheduler.Need {
	n := scheduler.On(k, w.why())
	if meant := w.in.GetInode(); meant != 0 {
		n = scheduler.If(n, func(_ scheduler.Key, v *models.NamespaceRef, _ struct{}) bool { return v.GetInode() == meant })
		n = scheduler.Tell(n, func(v *models.NamespaceRef, _ struct{}) string {
			return fmt.Sprintf("%s is another now, not %s", inode(v.GetInode()), inode(meant))
		})
	}
	return scheduler.Project(n, func(v *models.NamespaceRef, _ struct{}) string { return inode(v.GetInode()) })
}

func (w file) why() string {
	switch by := w.in.GetIn().(type) {
	case *models.Namespace_Pid:
		return "the process " + strconv.FormatUint(uint64(by.Pid), 10)
	case *models.Namespace_Pod:
		return "the pod " + by.Pod + ", attached by a container runtime"
	}
	return "a network namespace at " + w.in.GetPath()
}

func (w file) find(v Views, k scheduler.Key) (uint64, string, bool) {
	ref, _, ok := get(v.Refs, k)
	path, _ := File(w.in, nil) // of a pod the one that was observed
	meant := w.in.GetInode()
	return ref.GetInode(), cmp.Or(path, ref.GetPath()), ok && (meant == 0 || ref.GetInode() == meant)
}

func (w file) doubt(r *Resolver) error {
	path, _ := File(w.in, r.views.Pods)
	if path == "" {
		return nil // of a pod that is not attached
	}
	ns, err := r.open(path)
	refused := ns != 0 && r.refused(w.in, ns)
	if w.in.GetPod() != "" {
		return unread(!refused)
	}
	another := ns != 0 && w.in.GetInode() != 0 && w.in.GetInode() != uint64(ns)
	if refused || another {
		return nil
	}
	return err
}

// File is the file of a namespace that is named by pid, path or pod, "" if there is
// none, and the inode that it must have, 0 for any. pods may be nil.
func File(in *models.Namespace, pods Pods) (path string, inode uint64) {
	switch by := in.GetIn().(type) {
	case *models.Namespace_Pid:
		return processPath(by.Pid), 0
	case *models.Namespace_Path:
		return by.Path, 0
	case *models.Namespace_Pod:
		if pods != nil {
			return pods.Pod(by.Pod)
		}
	}
	return "", 0
}

func processPath(pid uint32) string {
	return "/proc/" + strconv.FormatUint(uint64(pid), 10) + "/ns/net"
}
