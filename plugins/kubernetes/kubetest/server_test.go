package kubetest_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
)

// TestServer checks what the tests of the source rely on: the server keeps objects when it is killed, and
// a node may list its own pods only.
func TestServer(t *testing.T) {
	s := kubetest.Start(t)
	uid := s.Client(kubetest.Admin).Create(kubetest.Pod{Namespace: "default", Name: "web", Node: "n0", Annotations: map[string]string{"a": "b"}})
	s.Stop()
	s.Start()
	n0 := s.Client(kubetest.Node("n0")).CoreV1().Pods("")
	list, err := n0.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n0"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || string(list.Items[0].UID) != uid {
		t.Errorf("the node n0 sees %+v, want the pod that was created", list.Items)
	}
	for _, selector := range []string{"", "spec.nodeName=n1"} {
		if _, err := n0.List(t.Context(), metav1.ListOptions{FieldSelector: selector}); !apierrors.IsForbidden(err) {
			t.Errorf("the node n0 lists pods with the selector %q: %v", selector, err)
		}
	}
}
