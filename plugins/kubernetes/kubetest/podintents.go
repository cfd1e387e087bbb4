package kubetest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

var (
	podIntents = schema.GroupVersionResource{Group: "plumb.net", Version: "v1alpha1", Resource: "podintents"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// PodIntent is a PodIntent that a test creates.
type PodIntent struct {
	Namespace, Name, Node, Pod string
	// UID is that of the pod, or "".
	UID string
	// Intent is the map of values in YAML.
	Intent string
}

// ServePodIntents applies the CRD of PodIntents and waits until they are served.
func (c *Client) ServePodIntents() {
	c.t.Helper()
	_, source, _, _ := runtime.Caller(0)
	c.Apply(filepath.Join(filepath.Dir(source), "../../../deploy/kubernetes/podintent.yaml"), false)
	c.eventually("PodIntents are served", func() error {
		_, err := c.Dynamic.Resource(podIntents).List(c.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n0"})
		return err
	})
}

// DropPodIntents deletes the CRD of PodIntents, and so all PodIntents, and waits until it is gone.
func (c *Client) DropPodIntents() {
	c.t.Helper()
	if err := c.Dynamic.Resource(crds).Delete(c.t.Context(), podIntents.GroupResource().String(), metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the CRD is gone", func() error {
		if _, err := c.Dynamic.Resource(crds).Get(c.t.Context(), podIntents.GroupResource().String(), metav1.GetOptions{}); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

func (c *Client) eventually(what string, f func() error) {
	c.t.Helper()
	err := f()
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); err = f() {
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

func (c *Client) podIntents(namespace string) dynamic.ResourceInterface {
	return c.Dynamic.Resource(podIntents).Namespace(namespace)
}

// Want creates a PodIntent, or changes it, and returns its UID.
func (c *Client) Want(i PodIntent) (uid string) {
	c.t.Helper()
	uid, err := c.TryWant(i)
	if err != nil {
		c.t.Fatal(err)
	}
	return uid
}

// TryWant does what Want does, and returns the error of the server.
func (c *Client) TryWant(i PodIntent) (uid string, err error) {
	c.t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(i.Intent), &values); err != nil {
		c.t.Fatal(err)
	}
	spec := map[string]any{"nodeName": i.Node, "podName": i.Pod, "intent": values}
	if i.UID != "" {
		spec["podUID"] = i.UID
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": podIntents.GroupVersion().String(), "kind": "PodIntent",
		"metadata": map[string]any{"namespace": i.Namespace, "name": i.Name}, "spec": spec,
	}}
	is, err := c.podIntents(i.Namespace).Apply(c.t.Context(), i.Name, o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		return "", err
	}
	return string(is.GetUID()), nil
}

// MayReadIntents reports whether the server lets the client list the PodIntents of node n0.
func (c *Client) MayReadIntents() bool {
	_, err := c.Dynamic.Resource(podIntents).List(c.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n0"})
	return !apierrors.IsForbidden(err)
}

// Unwant deletes a PodIntent.
func (c *Client) Unwant(namespace, name string) {
	c.t.Helper()
	if err := c.podIntents(namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// Ready returns the condition Ready of a PodIntent, as "<status> <reason>, <message>", or "" if it has none for its
// generation.
func (c *Client) Ready(namespace, name string) string {
	c.t.Helper()
	o, err := c.podIntents(namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, one := range list {
		if m := one.(map[string]any); m["type"] == "Ready" && m["observedGeneration"] == o.GetGeneration() {
			return fmt.Sprintf("%s %s, %s", m["status"], m["reason"], m["message"])
		}
	}
	return ""
}
