package mirror

import (
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// InCluster, in place of a kubeconfig, stands for the service account of the agent's own pod.
const InCluster = "in-cluster"

// requestTime bounds a request that is no watch.
const requestTime = 30 * time.Second

// config reads how the API server is reached: from a kubeconfig, or from the service account of the pod that
// the agent runs in. Tokens and certificates in files that it names are read again when they change.
func config(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == InCluster {
		c, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("the agent does not run in a pod: name a kubeconfig file in place of in-cluster")
		}
		return c, err
	}
	if _, err := os.Stat(kubeconfig); err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be read: %w", err)
	}
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig %s cannot be read: %w", kubeconfig, err)
	}
	return c, nil
}

// readCA reads the certificate of the CA now. The client would read a file again after five minutes only.
func readCA(c *rest.Config) error {
	if c.CAFile == "" {
		return nil
	}
	data, err := os.ReadFile(c.CAFile)
	if err != nil {
		return fmt.Errorf("the certificate of the API server's CA cannot be read: %w", err)
	}
	c.CAData, c.CAFile = data, ""
	return nil
}

// Resource is a resource of the API server, with the types that its objects are decoded as.
type Resource struct {
	schema.GroupVersionResource
	Kind   string
	Object runtime.Object
	List   runtime.Object
	// NodeField is the field that names the node of an object, for resources that are followed for one node; else "".
	NodeField string
	// Optional reports whether the API server may lack the resource, or may deny it, because it is defined by a CRD.
	// Removals of its objects are confirmed.
	Optional bool
}

// List is a list of objects of the type T.
type List[T any, P interface {
	*T
	runtime.Object
}] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (l *List[T, P]) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]T, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *P(&l.Items[i]).DeepCopyObject().(P)
	}
	return &c
}

// newList returns an empty list of the resource.
func (r Resource) newList() runtime.Object { return r.List.DeepCopyObject() }

// connect returns a client of the group of a resource.
func connect(kubeconfig string, r Resource) (*rest.RESTClient, error) {
	c, err := config(kubeconfig)
	if err == nil {
		err = readCA(c)
	}
	if err != nil {
		return nil, err
	}
	scheme, version := runtime.NewScheme(), r.GroupVersion()
	scheme.AddKnownTypeWithName(version.WithKind(r.Kind), r.Object)
	scheme.AddKnownTypeWithName(version.WithKind(r.Kind+"List"), r.List)
	metav1.AddToGroupVersion(scheme, version)
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if c.GroupVersion, c.APIPath = &version, "/apis"; version.Group == "" {
		c.APIPath = "/api"
	}
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
	c.UserAgent = "plumb-agent"
	c.QPS = -1 // the source asks seldom, and an ADD may wait for it
	return rest.RESTClientFor(c)
}
