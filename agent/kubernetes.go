package agent

import (
	"path/filepath"

	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/kubernetes"
	"github.com/plumb-net/plumb/plugins/kubernetes/nodes"
)

// podsFile is the copy of the pods of this node in the state directory.
const podsFile = "pods.json"

// openPods makes the source of the pods of this node.
func (a *agent) openPods() intent.Source {
	a.pods = kubernetes.New(a.sched, kubernetes.Options{
		Kubeconfig: a.config.Kubeconfig, Node: a.config.KubernetesNode, File: filepath.Join(a.config.StateDir, podsFile),
		Decode:   a.reach.decode,
		Engine:   a.sched,
		Attached: func(pod string) bool { path, _ := a.host.store.Pod(pod); return path != "" },
		Changed:  func(pod string) { a.cni.PodChanged(pod) },
		Log:      a.log.With("part", "kubernetes"),
	})
	return a.pods
}

// nodeIntentsFile is the copy of the NodeIntents of this node in the state directory.
const nodeIntentsFile = "nodeintents.json"

// openNodeIntents makes the source of the NodeIntents that select this node.
func (a *agent) openNodeIntents() intent.Source {
	a.nodeIntents = nodes.New(a.sched, nodes.Options{
		Kubeconfig: a.config.Kubeconfig, Node: a.config.KubernetesNode, File: filepath.Join(a.config.StateDir, nodeIntentsFile),
		Decode:   a.reach.decode,
		Engine:   a.sched,
		TakeBack: a.takeBack,
		Probe:    a.probe,
		Log:      a.log.With("part", "kubernetes"),
	})
	return a.nodeIntents
}

// Awaited implements [cni.Host].
func (h cniHost) Awaited(p cni.Pod) (string, error) {
	if h.pods == nil || p.Name == "" {
		return "", nil
	}
	return h.pods.Awaited(p.Namespace, p.Name, p.UID)
}

// Detached implements [cni.Host].
func (h cniHost) Detached(p cni.Pod) {
	if h.pods != nil {
		h.pods.Detached(p.Namespace, p.Name)
	}
}
