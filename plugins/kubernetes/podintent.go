package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
)

// intentField is the field of a PodIntent that holds values.
const intentField = "spec.intent"

// podIntentResource is the resource of PodIntents. Its CRD is deploy/kubernetes/podintent.yaml.
var podIntentResource = mirror.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "plumb.net", Version: "v1alpha1", Resource: "podintents"}, Kind: "PodIntent",
	Object: &podIntentObject{}, List: &mirror.List[podIntentObject, *podIntentObject]{}, NodeField: "spec.nodeName", Optional: true,
}

// podIntentObject holds the fields of a PodIntent that are decoded.
type podIntentObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		PodName string          `json:"podName"`
		PodUID  types.UID       `json:"podUID"`
		Intent  json.RawMessage `json:"intent"`
	} `json:"spec"`
	Status struct {
		Conditions []intentCondition `json:"conditions"`
	} `json:"status"`
}

// intentCondition is a condition of a PodIntent.
type intentCondition struct {
	condition          `json:",inline"`
	ObservedGeneration int64 `json:"observedGeneration"`
}

// DeepCopyObject implements [runtime.Object].
func (o *podIntentObject) DeepCopyObject() runtime.Object {
	c := *o
	o.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Intent = slices.Clone(o.Spec.Intent)
	c.Status.Conditions = slices.Clone(o.Status.Conditions)
	return &c
}

// PodIntent holds the fields of a PodIntent that the store keeps. It is immutable.
type PodIntent struct {
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	Version    string    `json:"version"`
	Generation int64     `json:"generation"`
	Created    time.Time `json:"created"`
	PodName    string    `json:"pod_name"`
	// PodUID is the UID that the pod must have at the API server, or "".
	PodUID types.UID `json:"pod_uid,omitempty"`
	Intent string    `json:"intent"`
	// Ready is the condition that the agent writes.
	Ready intentCondition `json:"-"`
}

// Path is <namespace>/<name>.
func (i *PodIntent) Path() string { return i.Namespace + "/" + i.Name }

// Subject implements [mirror.Item]: it is the path of the pod.
func (i *PodIntent) Subject() string { return i.Namespace + "/" + i.PodName }

// ID implements [mirror.Item].
func (i *PodIntent) ID() types.UID { return i.UID }

// ResourceVersion implements [mirror.Item].
func (i *PodIntent) ResourceVersion() string { return i.Version }

// compare orders PodIntents by precedence: the older one first.
func (i *PodIntent) compare(o *PodIntent) int {
	return cmp.Or(i.Created.Compare(o.Created), strings.Compare(i.Name, o.Name))
}

// values returns the values that a PodIntent wants for a pod.
func (i *PodIntent) values(p *Pod, decode Decoder) (intent.Values, error) {
	if i.Intent == "" {
		return nil, nil
	}
	return p.decode(text{i.Intent, intentField, maxIntentText, func(key string, _ int) string {
		return fmt.Sprintf("%s: the key %q", intentField, key)
	}}, decode)
}

// trimPodIntent returns the fields of a PodIntent that the store keeps.
func trimPodIntent(decoded any) *PodIntent {
	o := decoded.(*podIntentObject)
	i := &PodIntent{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, Version: o.ResourceVersion, Generation: o.Generation,
		Created: o.CreationTimestamp.UTC(), PodName: o.Spec.PodName, PodUID: o.Spec.PodUID, Intent: string(o.Spec.Intent),
	}
	if i.Intent == "null" { // an empty map, by server-side apply
		i.Intent = ""
	}
	for _, c := range o.Status.Conditions {
		if c.Type == IntentReadyCondition {
			i.Ready = c
		}
	}
	return i
}
