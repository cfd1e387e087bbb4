package agent

import (
	"path/filepath"
	"strings"

	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/kubernetes"
	"github.com/plumb-net/plumb/plugins/kubernetes/nodes"
)

// podsFile is the copy of the pods of this node in the state directory.
const podsFile = "pods.json"

// openPods makes the source of the pods of this node.
func (a *agent) openPods() intent.Source {
	o := kubernetes.Options{
		Kubeconfig: a.config.Kubeconfig, Node: a.config.KubernetesNode, File: filepath.Join(a.config.StateDir, podsFile),
		Decode:   a.reach.decode,
		Engine:   a.sched,
		Attached: func(pod string) bool { path, _ := a.host.store.Pod(pod); return path != "" },
		Changed:  func(pod string) { a.cni.PodChanged(pod) },
		Log:      a.log.With("part", "kubernetes"),
	}
	if a.config.KubernetesNetworkStatus == on {
		o.Networks = a.networksOf
	}
	a.pods = kubernetes.New(a.sched, o)
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

// AttachmentsChanged implements [cni.Host].
func (h cniHost) AttachmentsChanged(p cni.Pod) {
	if h.pods != nil {
		h.pods.AttachmentsChanged(p.Namespace, p.Name)
	}
}

// defaultInterface is the interface of the default network of a cluster in each pod.
const defaultInterface = "eth0"

// networksOf returns the attachments of a pod, <namespace>/<name>/<uid>.
func (a *agent) networksOf(pod string) (list []kubernetes.Network) {
	namespace, rest, _ := strings.Cut(pod, "/")
	name, uid, _ := strings.Cut(rest, "/")
	for _, at := range a.host.store.OfPod(cni.Pod{Namespace: namespace, Name: name, UID: uid}) {
		if at.Result == nil {
			continue
		}
		n := kubernetes.Network{Name: at.Key.Network, Interface: at.Key.IfName, Default: at.Key.IfName == defaultInterface}
		for _, i := range at.Result.Interfaces {
			if i.Sandbox != "" && i.Name == at.Key.IfName {
				n.MAC, n.MTU = i.Mac, i.MTU
			}
		}
		for _, ip := range at.Result.IPs {
			address, _, _ := strings.Cut(ip.Address, "/")
			n.IPs = append(n.IPs, address)
			if ip.Gateway != "" {
				n.Gateway = append(n.Gateway, ip.Gateway)
			}
		}
		list = append(list, n)
	}
	return list
}
