package kubernetes

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
	"github.com/plumb-net/plumb/scheduler"
)

// Annotations of pods.
const (
	// IntentAnnotation holds the values that a pod wants, as a map of local keys to values.
	IntentAnnotation = "plumb.net/intent"
	// configHash holds the UID that runtimes pass for a static pod. The mirror pod at the API server has another UID
	// and carries this annotation (kubelet, pkg/kubelet/config).
	configHash   = "kubernetes.io/config.hash"
	configMirror = "kubernetes.io/config.mirror"
)

// object holds the fields of a pod that are decoded. With k8s.io/api every field of every pod would be decoded.
type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName    string `json:"nodeName"`
		HostNetwork bool   `json:"hostNetwork"`
	} `json:"spec"`
	Status struct {
		Phase      string      `json:"phase"`
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// DeepCopyObject implements [runtime.Object].
func (o *object) DeepCopyObject() runtime.Object {
	c := *o
	o.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = append([]condition(nil), o.Status.Conditions...)
	return &c
}

// podResource is the resource of pods.
var podResource = mirror.Resource{
	GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod",
	Object: &object{}, List: &mirror.List[object, *object]{}, NodeField: "spec.nodeName",
}

// Pod holds the fields of a pod that the store keeps. It is immutable.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is that of the object at the API server.
	UID types.UID `json:"uid"`
	// RuntimeUID is the UID that runtimes pass: that of the object, except of static pods.
	RuntimeUID  string `json:"runtime_uid"`
	Version     string `json:"version"`
	Intent      string `json:"intent,omitempty"`
	HostNetwork bool   `json:"host_network,omitempty"`
	// Ended reports whether all containers have ended and none is restarted.
	Ended bool `json:"ended,omitempty"`
	// Status and Ready are the annotation and the condition that the agent writes.
	Status string    `json:"-"`
	Ready  condition `json:"-"`
	// Networks is the annotation [NetworksAnnotation].
	Networks string    `json:"-"`
	Deleted  time.Time `json:"deleted,omitzero"`
}

// Path is <namespace>/<name>.
func (p *Pod) Path() string { return p.Namespace + "/" + p.Name }

// Subject implements [mirror.Item].
func (p *Pod) Subject() string { return p.Path() }

// ID implements [mirror.Item].
func (p *Pod) ID() types.UID { return p.UID }

// ResourceVersion implements [mirror.Item].
func (p *Pod) ResourceVersion() string { return p.Version }

// runtimeName is the name of the pod for values and runtimes, <namespace>/<name>/<uid>.
func (p *Pod) runtimeName() string { return p.Path() + "/" + p.RuntimeUID }

// namespaceKey is the key of the network namespace of the pod.
func (p *Pod) namespaceKey() scheduler.Key {
	return scheduler.Key(models.NamespacePodKey(p.runtimeName()))
}

// trimPod returns the fields of a pod that the store keeps.
func trimPod(decoded any) *Pod {
	o := decoded.(*object)
	p := &Pod{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, RuntimeUID: string(o.UID), Version: o.ResourceVersion,
		Intent: o.Annotations[IntentAnnotation], HostNetwork: o.Spec.HostNetwork,
		Ended: o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed",
	}
	if _, mirror := o.Annotations[configMirror]; mirror && o.Annotations[configHash] != "" {
		p.RuntimeUID = o.Annotations[configHash]
	}
	p.Status, p.Networks = o.Annotations[StatusAnnotation], o.Annotations[NetworksAnnotation]
	for _, c := range o.Status.Conditions {
		if c.Type == ReadyCondition {
			p.Ready = c
		}
	}
	if o.DeletionTimestamp != nil {
		p.Deleted = o.DeletionTimestamp.Time
	}
	return p
}
