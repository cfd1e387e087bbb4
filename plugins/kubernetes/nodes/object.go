package nodes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
)

var group = schema.GroupVersion{Group: "plumb.net", Version: "v1alpha1"}

// Resources that the source follows. The CRDs are in deploy/kubernetes/nodeintent.yaml.
var (
	nodeResource = mirror.Resource{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Kind: "Node",
		Object: &nodeObject{}, List: &mirror.List[nodeObject, *nodeObject]{}, NodeField: "metadata.name",
	}
	intentResource = mirror.Resource{
		GroupVersionResource: group.WithResource("nodeintents"), Kind: "NodeIntent",
		Object: &intentObject{}, List: &mirror.List[intentObject, *intentObject]{}, Optional: true,
	}
	stateResource = mirror.Resource{
		GroupVersionResource: group.WithResource("nodeintentstates"), Kind: "NodeIntentState",
		Object: &stateObject{}, List: &mirror.List[stateObject, *stateObject]{}, NodeField: "spec.nodeName", Optional: true,
	}
)

// nodeObject holds the fields of a node that are decoded.
type nodeObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// DeepCopyObject implements [runtime.Object].
func (o *nodeObject) DeepCopyObject() runtime.Object {
	c := *o
	o.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// Node is the node of the agent. It is immutable.
type Node struct {
	Name    string
	UID     types.UID
	Version string
	Labels  labels.Set
}

// Path implements [mirror.Item], as Subject does.
func (n *Node) Path() string { return "/" + n.Name }

// Subject implements [mirror.Item]: a change of the node concerns all NodeIntents.
func (n *Node) Subject() string { return "" }

// ID implements [mirror.Item].
func (n *Node) ID() types.UID { return n.UID }

// ResourceVersion implements [mirror.Item].
func (n *Node) ResourceVersion() string { return n.Version }

func trimNode(decoded any) *Node {
	o := decoded.(*nodeObject)
	return &Node{Name: o.Name, UID: o.UID, Version: o.ObjectMeta.ResourceVersion, Labels: o.Labels}
}

// intentObject holds the fields of a NodeIntent that are decoded.
type intentObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeSelector   *metav1.LabelSelector `json:"nodeSelector"`
		Intent         json.RawMessage       `json:"intent"`
		MaxUnavailable *intstr.IntOrString   `json:"maxUnavailable"`
		Confirm        *struct {
			Timeout string   `json:"timeout"`
			Probes  []string `json:"probes"`
		} `json:"confirm"`
	} `json:"spec"`
	Status shownStatus `json:"status"`
}

// DeepCopyObject implements [runtime.Object].
func (o *intentObject) DeepCopyObject() runtime.Object {
	c := *o
	o.DeepCopyInto(&c.ObjectMeta)
	c.Spec.NodeSelector = o.Spec.NodeSelector.DeepCopy()
	c.Spec.Intent = slices.Clone(o.Spec.Intent)
	c.Status.Applying = slices.Clone(o.Status.Applying)
	c.Status.Conditions = slices.Clone(o.Status.Conditions)
	return &c
}

// shownStatus is the status of a NodeIntent.
type shownStatus struct {
	// Applying are the nodes whose turn it is.
	Applying []turn `json:"applying"`
	Nodes    counts `json:"nodes"`
	// Conditions has the condition Ready.
	Conditions []metav1.Condition `json:"conditions"`
}

// turn is an entry of a node whose turn it is to apply a NodeIntent.
type turn struct {
	Node       string      `json:"node"`
	Generation int64       `json:"generation"`
	Since      metav1.Time `json:"since"`
}

// Intent holds the fields of a NodeIntent that the store keeps. It is immutable.
type Intent struct {
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	Version    string    `json:"version"`
	Generation int64     `json:"generation"`
	Created    time.Time `json:"created"`
	// Selector selects nodes; nil selects all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Text is the map of values in JSON.
	Text string `json:"intent"`
	// MaxUnavailable is how many nodes may apply it at once.
	MaxUnavailable intstr.IntOrString `json:"max_unavailable"`
	// Confirm reports whether the change is reverted unless it works within Timeout.
	Confirm bool          `json:"confirm,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Probes  []string      `json:"probes,omitempty"`
	// Status is the status at the API server.
	Status shownStatus `json:"-"`
}

// Path implements [mirror.Item]. NodeIntents have no namespace.
func (i *Intent) Path() string { return "/" + i.Name }

// Subject implements [mirror.Item].
func (i *Intent) Subject() string { return i.Name }

// ID implements [mirror.Item].
func (i *Intent) ID() types.UID { return i.UID }

// ResourceVersion implements [mirror.Item].
func (i *Intent) ResourceVersion() string { return i.Version }

// compare orders NodeIntents by precedence: the older one first.
func (i *Intent) compare(o *Intent) int {
	return cmp.Or(i.Created.Compare(o.Created), strings.Compare(i.Name, o.Name))
}

// selects reports whether the node is selected.
func (i *Intent) selects(n *Node) bool {
	if !i.needsLabels() {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(i.Selector)
	return err == nil && n != nil && s.Matches(n.Labels) // the API server has validated the selector
}

// needsLabels reports whether the labels of a node decide if it is selected.
func (i *Intent) needsLabels() bool {
	return i.Selector != nil && len(i.Selector.MatchLabels)+len(i.Selector.MatchExpressions) > 0
}

// most returns how many of the selected nodes may apply the NodeIntent at once: at least one.
func (i *Intent) most(selected int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&i.MaxUnavailable, selected, true)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// holds reports whether it is the turn of a node.
func (i *Intent) holds(node string) bool {
	return slices.ContainsFunc(i.Status.Applying, func(t turn) bool { return t.Node == node })
}

// confirmTimeout is the default of spec.confirm.timeout, which the CRD sets too.
const confirmTimeout = 2 * time.Minute

func trimIntent(decoded any) *Intent {
	o := decoded.(*intentObject)
	i := &Intent{Name: o.Name, UID: o.UID, Version: o.ObjectMeta.ResourceVersion, Generation: o.Generation, Created: o.CreationTimestamp.UTC(),
		Selector: o.Spec.NodeSelector, Text: string(o.Spec.Intent), MaxUnavailable: intstr.FromInt32(1), Status: o.Status}
	if i.Text == "null" || i.Text == "" { // an empty map, by server-side apply
		i.Text = "{}"
	}
	if o.Spec.MaxUnavailable != nil {
		i.MaxUnavailable = *o.Spec.MaxUnavailable
	}
	if c := o.Spec.Confirm; c != nil {
		i.Confirm, i.Timeout, i.Probes = true, confirmTimeout, c.Probes
		if d, err := time.ParseDuration(c.Timeout); err == nil {
			i.Timeout = d
		}
	}
	return i
}

// stateObject holds the fields of a NodeIntentState that are decoded.
type stateObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              stateSpec   `json:"spec"`
	Status            stateStatus `json:"status"`
}

type stateSpec struct {
	NodeIntent string `json:"nodeIntent"`
	NodeName   string `json:"nodeName"`
}

// stateStatus is how a NodeIntent is on a node.
type stateStatus struct {
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// NodeIntentUID is the UID of the NodeIntent that the status is about.
	NodeIntentUID      types.UID          `json:"nodeIntentUID"`
	ObservedGeneration int64              `json:"observedGeneration"`
	AppliedGeneration  int64              `json:"appliedGeneration,omitempty"`
	Keys               []keyState         `json:"keys,omitempty"`
	Conditions         []metav1.Condition `json:"conditions"`
}

// keyState is the state of one key.
type keyState struct {
	Key    string `json:"key"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// DeepCopyObject implements [runtime.Object].
func (o *stateObject) DeepCopyObject() runtime.Object {
	c := *o
	o.DeepCopyInto(&c.ObjectMeta)
	c.Status.Keys = slices.Clone(o.Status.Keys)
	c.Status.Conditions = slices.Clone(o.Status.Conditions)
	return &c
}

// state holds the fields of a NodeIntentState that the store keeps. It is immutable.
type state struct {
	name, intent, node string
	uid                types.UID
	version            string
	status             stateStatus
}

// Path implements [mirror.Item].
func (s *state) Path() string { return "/" + s.name }

// Subject implements [mirror.Item].
func (s *state) Subject() string { return s.intent }

// ID implements [mirror.Item].
func (s *state) ID() types.UID { return s.uid }

// ResourceVersion implements [mirror.Item].
func (s *state) ResourceVersion() string { return s.version }

func trimState(decoded any) *state {
	o := decoded.(*stateObject)
	return &state{name: o.Name, intent: o.Spec.NodeIntent, node: o.Spec.NodeName, uid: o.UID, version: o.ObjectMeta.ResourceVersion, status: o.Status}
}

// stateName returns the name of the NodeIntentState of a NodeIntent on a node.
func stateName(intent, node string) string {
	const longest = 253 // of names of objects
	if name := intent + "." + node; len(name) <= longest {
		return name
	}
	return fmt.Sprintf("%s.%x", intent, digest(node))
}
