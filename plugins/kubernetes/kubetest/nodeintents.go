package kubetest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
)

var (
	nodeIntents      = schema.GroupVersionResource{Group: "plumb.net", Version: "v1alpha1", Resource: "nodeintents"}
	nodeIntentStates = schema.GroupVersionResource{Group: "plumb.net", Version: "v1alpha1", Resource: "nodeintentstates"}
)

// ServeNodeIntents applies the CRDs of NodeIntents and NodeIntentStates, and waits until they are served.
func (c *Client) ServeNodeIntents() {
	c.t.Helper()
	_, source, _, _ := runtime.Caller(0)
	c.Apply(filepath.Join(filepath.Dir(source), "../../../deploy/kubernetes/nodeintent.yaml"), false)
	c.eventually("NodeIntents are served", func() error {
		if _, err := c.Dynamic.Resource(nodeIntents).List(c.t.Context(), metav1.ListOptions{}); err != nil {
			return err
		}
		_, err := c.Dynamic.Resource(nodeIntentStates).List(c.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n0"})
		return err
	})
}

// DropNodeIntents deletes the CRD of NodeIntents, and so all NodeIntents, and waits until it is gone.
func (c *Client) DropNodeIntents() {
	c.t.Helper()
	if err := c.Dynamic.Resource(crds).Delete(c.t.Context(), nodeIntents.GroupResource().String(), metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the CRD is gone", func() error {
		if _, err := c.Dynamic.Resource(crds).Get(c.t.Context(), nodeIntents.GroupResource().String(), metav1.GetOptions{}); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

// CreateNode creates a node with labels, written as a=b,c=d.
func (c *Client) CreateNode(name, labels string) {
	c.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(labels)}}
	if _, err := c.CoreV1().Nodes().Create(c.t.Context(), n, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		c.t.Fatal(err)
	}
}

// DeleteNode deletes a node.
func (c *Client) DeleteNode(name string) {
	c.t.Helper()
	if err := c.CoreV1().Nodes().Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// Label sets a label of a node, or removes it if value is "".
func (c *Client) Label(node, label, value string) {
	c.t.Helper()
	text := fmt.Sprintf("%q", value)
	if value == "" {
		text = "null"
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, label, text)
	if _, err := c.CoreV1().Nodes().Patch(c.t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func labelsOf(text string) map[string]string {
	labels := map[string]string{}
	for _, one := range strings.Split(text, ",") {
		if name, value, ok := strings.Cut(one, "="); ok {
			labels[name] = value
		}
	}
	return labels
}

// WantOnNodes creates a NodeIntent, or changes it. spec is its spec in YAML.
func (c *Client) WantOnNodes(name, spec string) {
	c.t.Helper()
	if err := c.TryWantOnNodes(name, spec); err != nil {
		c.t.Fatal(err)
	}
}

// TryWantOnNodes does what WantOnNodes does, and returns the error of the server.
func (c *Client) TryWantOnNodes(name, spec string) error {
	c.t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &values); err != nil {
		c.t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": nodeIntents.GroupVersion().String(), "kind": "NodeIntent", "metadata": map[string]any{"name": name}, "spec": values,
	}}
	_, err := c.Dynamic.Resource(nodeIntents).Apply(c.t.Context(), name, o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	return err
}

// UnwantOnNodes deletes a NodeIntent.
func (c *Client) UnwantOnNodes(name string) {
	c.t.Helper()
	if err := c.Dynamic.Resource(nodeIntents).Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// NodeIntent returns the condition of a NodeIntent and the nodes that apply it, as "<status> <reason>, <message>
// [<node> …]".
func (c *Client) NodeIntent(name string) string {
	c.t.Helper()
	o, err := c.Dynamic.Resource(nodeIntents).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	text := ""
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range list {
		if m := one.(map[string]any); m["type"] == "Ready" && m["observedGeneration"] == o.GetGeneration() {
			text = fmt.Sprintf("%s %s, %s ", m["status"], m["reason"], m["message"])
		}
	}
	return text + fmt.Sprint(applying(o))
}

// Applying returns the nodes that apply a NodeIntent.
func (c *Client) Applying(name string) []string {
	c.t.Helper()
	o, err := c.Dynamic.Resource(nodeIntents).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return applying(o)
}

// applying returns the nodes that apply a NodeIntent.
func applying(o *unstructured.Unstructured) (nodes []string) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "applying")
	for _, one := range list {
		nodes = append(nodes, one.(map[string]any)["node"].(string))
	}
	slices.Sort(nodes)
	return nodes
}

// MostApplying watches a NodeIntent until stop, which returns the largest number of nodes that applied it at once.
func (c *Client) MostApplying(name string) (stop func() int) {
	c.t.Helper()
	list, err := c.Dynamic.Resource(nodeIntents).List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	w, err := c.Dynamic.Resource(nodeIntents).Watch(c.t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		c.t.Fatal(err)
	}
	most, stopping := make(chan int), make(chan struct{})
	go func() {
		n := 0
		for e := range w.ResultChan() {
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok || e.Type == watch.Error {
				select {
				case <-stopping: // it ends with an error
				default:
					c.t.Errorf("watch of %s: %v", name, e.Object)
				}
				continue
			}
			n = max(n, len(applying(o)))
		}
		most <- n
	}()
	return func() int {
		time.Sleep(50 * time.Millisecond) // for the last changes
		close(stopping)
		w.Stop()
		return <-most
	}
}

// SetStatus changes the status of a NodeIntent by a merge patch.
func (c *Client) SetStatus(name, patch string) {
	c.t.Helper()
	if _, err := c.Dynamic.Resource(nodeIntents).Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		c.t.Fatal(err)
	}
}

// ShowOnNode creates a NodeIntentState, if there is none.
func (c *Client) ShowOnNode(name, node string) {
	c.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": nodeIntents.GroupVersion().String(), "kind": "NodeIntentState", "metadata": map[string]any{"name": name + "." + node},
		"spec": map[string]any{"nodeIntent": name, "nodeName": node},
	}}
	if _, err := c.Dynamic.Resource(nodeIntentStates).Create(c.t.Context(), o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		c.t.Fatal(err)
	}
}

// HideOnNode deletes a NodeIntentState, as the garbage collector does after its node was deleted.
func (c *Client) HideOnNode(name, node string) {
	c.t.Helper()
	if err := c.Dynamic.Resource(nodeIntentStates).Delete(c.t.Context(), name+"."+node, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// NodeIntentState returns a NodeIntentState as "<state> <applied generation>: <reason>", or "" if there is none.
func (c *Client) NodeIntentState(name, node string) string {
	c.t.Helper()
	o, err := c.Dynamic.Resource(nodeIntentStates).Get(c.t.Context(), name+"."+node, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	state, _, _ := unstructured.NestedString(o.Object, "status", "state")
	reason, _, _ := unstructured.NestedString(o.Object, "status", "reason")
	applied, _, _ := unstructured.NestedInt64(o.Object, "status", "appliedGeneration")
	return fmt.Sprintf("%s %d: %s", state, applied, reason)
}
