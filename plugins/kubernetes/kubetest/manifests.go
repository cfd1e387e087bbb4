package kubetest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// Apply applies all objects of a file by server-side apply, or has the server validate them only. Unknown fields are
// errors.
func (c *Client) Apply(file string, dry bool) {
	c.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Discovery()))
	o := metav1.ApplyOptions{FieldManager: "test", Force: true}
	if dry {
		o.DryRun = []string{metav1.DryRunAll}
	}
	for docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var u unstructured.Unstructured
		if err := docs.Decode(&u); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			c.t.Fatalf("%s: %v", file, err)
		}
		kind := u.GroupVersionKind()
		at, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			c.t.Fatalf("%s: %v", file, err)
		}
		if _, err := c.Dynamic.Resource(at.Resource).Namespace(u.GetNamespace()).Apply(c.t.Context(), u.GetName(), &u, o); err != nil {
			c.t.Errorf("%s: %s %s: %v", file, kind.Kind, u.GetName(), err)
		}
	}
}

// Token returns a token of a service account that is bound to a pod, as kubelet gives it to the pod.
func (c *Client) Token(namespace, account, pod string) string {
	c.t.Helper()
	uid := c.Get(namespace, pod).UID
	r, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(c.t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: uid}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return r.Status.Token
}

// RemoveRight takes a verb on a resource out of a cluster role.
func (c *Client) RemoveRight(role, resource, verb string) {
	c.t.Helper()
	r, err := c.RbacV1().ClusterRoles().Get(c.t.Context(), role, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	found := false
	for i, rule := range r.Rules {
		if slices.Contains(rule.Resources, resource) {
			verbs := slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == verb })
			found = found || len(verbs) < len(rule.Verbs)
			r.Rules[i].Verbs = verbs
		}
	}
	r.Rules = slices.DeleteFunc(r.Rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Verbs) == 0 })
	if !found {
		c.t.Fatalf("the role %s has no right to %s %s", role, verb, resource)
	}
	if _, err := c.RbacV1().ClusterRoles().Update(c.t.Context(), r, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// AllowNodes creates a role that allows all nodes some verbs on a resource.
func (c *Client) AllowNodes(group, resource string, verbs ...string) {
	c.t.Helper()
	meta := metav1.ObjectMeta{Name: nodesRole(resource)}
	_, err := c.RbacV1().ClusterRoles().Create(c.t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}}}, metav1.CreateOptions{})
	if err == nil {
		_, err = c.RbacV1().ClusterRoleBindings().Create(c.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"}}}, metav1.CreateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// DisallowNodes deletes the role that AllowNodes created.
func (c *Client) DisallowNodes(resource string) {
	c.t.Helper()
	if err := c.RbacV1().ClusterRoles().Delete(c.t.Context(), nodesRole(resource), metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// nodesRole returns the name of the role for a resource. It may have no slash.
func nodesRole(resource string) string { return "nodes-" + strings.ReplaceAll(resource, "/", "-") }
