package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Client is a client of the server, typed and untyped.
type Client struct {
	*kubernetes.Clientset
	Dynamic dynamic.Interface

	t testing.TB
}

// RESTClient returns the client of the group core.
func (c *Client) RESTClient() rest.Interface { return c.CoreV1().RESTClient() }

// Pod is a pod that a test creates, on a node: nobody schedules.
type Pod struct {
	Namespace, Name, Node string
	Annotations           map[string]string
	HostNetwork           bool
	// Account is the service account that the pod runs as.
	Account string
	// Grace is for how long the pod stays when it is deleted, until [Client.Remove].
	Grace int64
}

// Create creates a pod and returns its UID. The namespace is created if it is missing.
func (c *Client) Create(p Pod) (uid string) {
	c.t.Helper()
	if p.Namespace != "default" {
		// An error shows when the pod is created.
		_, _ = c.CoreV1().Namespaces().Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}, metav1.CreateOptions{})
	}
	created, err := c.CoreV1().Pods(p.Namespace).Create(c.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Annotations: p.Annotations},
		Spec: corev1.PodSpec{
			NodeName: p.Node, HostNetwork: p.HostNetwork, ServiceAccountName: p.Account, TerminationGracePeriodSeconds: &p.Grace,
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return string(created.UID)
}

// Get returns a pod.
func (c *Client) Get(namespace, name string) *corev1.Pod {
	c.t.Helper()
	p, err := c.CoreV1().Pods(namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// Annotate sets an annotation of a pod.
func (c *Client) Annotate(namespace, name, annotation, value string) {
	c.t.Helper()
	c.annotate(namespace, name, map[string]*string{annotation: &value})
}

// Unannotate removes an annotation of a pod.
func (c *Client) Unannotate(namespace, name, annotation string) {
	c.t.Helper()
	c.annotate(namespace, name, map[string]*string{annotation: nil})
}

func (c *Client) annotate(namespace, name string, annotations map[string]*string) {
	c.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err == nil {
		_, err = c.CoreV1().Pods(namespace).Patch(c.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// Delete deletes a pod. One with a grace period stays, and has a time of deletion.
func (c *Client) Delete(namespace, name string) {
	c.t.Helper()
	if err := c.CoreV1().Pods(namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// Remove deletes a pod at once, as kubelet does when its containers have ended. It works in cleanups, too.
func (c *Client) Remove(namespace, name string) {
	c.t.Helper()
	now := int64(0)
	err := c.CoreV1().Pods(namespace).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil {
		c.t.Fatal(err)
	}
}

// Events returns the events of a pod in their order, as "<type> <reason>".
func (c *Client) Events(namespace, pod string) (all []string) {
	c.t.Helper()
	list, err := c.CoreV1().Events(namespace).List(c.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		c.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int {
		order, _ := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
		return order
	})
	for _, e := range list.Items {
		all = append(all, e.Type+" "+e.Reason)
	}
	return all
}

// Follow follows the pods of a node with an informer of client-go until the test ends. It returns a function that
// returns them sorted, as "<namespace>/<name> <uid> <version> <annotation plumb.net/intent>".
func (c *Client) Follow(node string) func() []string {
	c.t.Helper()
	store := c.inform(node, func(any) {})
	return func() (all []string) {
		for _, o := range store.List() {
			p := o.(*corev1.Pod)
			all = append(all, fmt.Sprintf("%s/%s %s %s %s", p.Namespace, p.Name, p.UID, p.ResourceVersion, p.Annotations["plumb.net/intent"]))
		}
		slices.Sort(all)
		return all
	}
}

// inform runs an informer of the pods of a node until the test ends. It calls f for pods that come or change.
func (c *Client) inform(node string, f func(o any)) cache.Store {
	c.t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(c.Clientset, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "spec.nodeName=" + node
	}))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: f, UpdateFunc: func(_, o any) { f(o) }})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.StartWithContext(ctx)
	c.t.Cleanup(func() { cancel(); factory.Shutdown() })
	return informer.GetStore()
}

// Changes follows the pods of a node with an informer of client-go until the test ends. The function that it returns
// waits until a pod has an annotation plumb.net/intent, and returns when the informer saw it.
func (c *Client) Changes(node string) func(name, intent string) time.Time {
	c.t.Helper()
	var mu sync.Mutex
	seen, news := map[string]time.Time{}, make(chan struct{}, 1)
	note := func(o any) {
		p := o.(*corev1.Pod)
		mu.Lock()
		defer mu.Unlock()
		if at := p.Name + " " + p.Annotations["plumb.net/intent"]; seen[at].IsZero() {
			seen[at] = time.Now()
		}
		select {
		case news <- struct{}{}:
		default:
		}
	}
	c.inform(node, note)
	return func(name, intent string) time.Time {
		for end := time.After(time.Minute); ; {
			mu.Lock()
			at := seen[name+" "+intent]
			mu.Unlock()
			if !at.IsZero() {
				return at
			}
			select {
			case <-news:
			case <-end:
				c.t.Fatalf("the informer does not see the annotation of %s", name)
			}
		}
	}
}
