package kubernetes

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Annotations of pods.
const (
	// IntentAnnotation holds the values that a pod wants, as a map of local keys to values.
	IntentAnnotation = "plumb.net/intent"
	// configHash is the UID of a static pod on its mirror at the API server. Runtimes pass it as the UID of
	// the pod.
	configHash   = "kubernetes.io/config.hash"
	configMirror = "kubernetes.io/config.mirror"
)

// object is a pod as far as it is decoded. A type with all fields would take ten times the memory, and its
// module more than the rest of the agent.
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

type objectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []object `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (o *object) DeepCopyObject() runtime.Object {
	c := *o
	o.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = append([]condition(nil), o.Status.Conditions...)
	return &c
}

// DeepCopyObject implements [runtime.Object].
func (l *objectList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]object, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*object)
	}
	return &c
}

// codecs decode pods as objects.
func codecs() (runtime.NegotiatedSerializer, schema.GroupVersion) {
	v1 := schema.GroupVersion{Version: "v1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(v1.WithKind("Pod"), &object{})
	scheme.AddKnownTypeWithName(v1.WithKind("PodList"), &objectList{})
	metav1.AddToGroupVersion(scheme, v1)
	return serializer.NewCodecFactory(scheme).WithoutConversion(), v1
}

// Pod is what is kept of a pod. It is not changed.
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
	// Ended: all containers have ended, and none starts again.
	Ended bool `json:"ended,omitempty"`
	// Status and Ready are what the agent has written to the pod.
	Status  string    `json:"-"`
	Ready   condition `json:"-"`
	Deleted time.Time `json:"deleted,omitzero"`
}

// Path is <namespace>/<name>.
func (p *Pod) Path() string { return p.Namespace + "/" + p.Name }

// runtimeName is the name of the pod for values and runtimes, <namespace>/<name>/<uid>.
func (p *Pod) runtimeName() string { return p.Path() + "/" + p.RuntimeUID }

// namespaceKey is the key of the network namespace of the pod.
func (p *Pod) namespaceKey() scheduler.Key {
	return scheduler.Key(models.NamespacePodKey(p.runtimeName()))
}

// trim returns what is kept of an object.
func trim(o *object) *Pod {
	p := &Pod{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, RuntimeUID: string(o.UID), Version: o.ResourceVersion,
		Intent: o.Annotations[IntentAnnotation], HostNetwork: o.Spec.HostNetwork,
		Ended: o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed",
	}
	if _, mirror := o.Annotations[configMirror]; mirror && o.Annotations[configHash] != "" {
		p.RuntimeUID = o.Annotations[configHash]
	}
	p.Status = o.Annotations[StatusAnnotation]
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
