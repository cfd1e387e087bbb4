package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// manifests is where the manifests are that users apply.
const manifests = "../../../deploy/kubernetes"

// TestManifestsAreAccepted has a real API server validate all that the kustomization names, by a dry run.
func TestManifestsAreAccepted(t *testing.T) {
	s := kubetest.Start(t)
	admin := s.Client(kubetest.Admin)
	admin.Apply(filepath.Join(manifests, "namespace.yaml"), false) // the others are in it
	named, err := os.ReadFile(filepath.Join(manifests, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		if !bytes.Contains(named, []byte("- "+filepath.Base(file)+"\n")) {
			t.Errorf("kustomization.yaml does not name %s", filepath.Base(file))
		}
		admin.Apply(file, true)
	}
}

// account is a cluster with the account of the agent, and its policy, on two nodes.
type account struct {
	server *kubetest.Server
	admin  *kubetest.Client
	// token is a token of the account, bound to the pod of the agent on n0.
	token string
	audit string // the audit log
}

func newAccount(t *testing.T, args ...string) *account {
	t.Helper()
	dir := t.TempDir()
	policy, audit := filepath.Join(dir, "policy"), filepath.Join(dir, "log")
	err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := kubetest.Start(t, append(args, "--audit-policy-file="+policy, "--audit-log-path="+audit)...)
	a := &account{server: s, admin: s.Client(kubetest.Admin), audit: audit}
	a.admin.ServePodIntents()
	a.admin.ServeNodeIntents()
	a.admin.CreateNode("n0", "role=edge")
	for _, file := range []string{"namespace.yaml", "account.yaml", "policy.yaml"} {
		a.admin.Apply(filepath.Join(manifests, file), false)
	}
	a.admin.Create(kubetest.Pod{Namespace: "plumb-system", Name: "plumb-agent-n0", Node: "n0", Account: "plumb-agent"})
	a.token = a.admin.Token("plumb-system", "plumb-agent", "plumb-agent-n0")
	return a
}

// TestAccountIsConfined attacks the API server with the token of an agent: it reads pods and writes the status of
// pods on its own node, and nothing else.
func TestAccountIsConfined(t *testing.T) {
	a := newAccount(t)
	a.admin.Create(kubetest.Pod{Namespace: "default", Name: "own", Node: "n0"})
	a.admin.Create(kubetest.Pod{Namespace: "default", Name: "other", Node: "n1"})
	agent := a.server.Client(a.token).RESTClient()
	patch := func(pod, subresource, body string) error {
		return agent.Patch("application/strategic-merge-patch+json").Namespace("default").Resource("pods").Name(pod).SubResource(subresource).
			Body([]byte(body)).Do(t.Context()).Error()
	}
	status := `{"metadata":{"annotations":{"plumb.net/status":"{}"}},"status":{"conditions":[{"type":"plumb.net/NetworkReady","status":"True"}]}}`
	// The policy counts some time after it was created.
	for end := time.Now().Add(host.Patience); patch("other", "status", status) == nil && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	for _, c := range []struct{ what, pod, subresource, body, want string }{
		{"its status", "own", "status", status, ""},
		{"the status of a pod on another node", "other", "status", status, "on its own node only"},
		{"a label", "own", "status", `{"metadata":{"labels":{"app":"db"}}}`, "writes no labels"},
		{"an annotation of others", "own", "status", `{"metadata":{"annotations":{"seccomp":"off"}}}`, "annotations plumb.net/status and"},
		{"the intent", "own", "status", `{"metadata":{"annotations":{"plumb.net/intent":"{}"}}}`, "annotations plumb.net/status and"},
		{"a condition of others", "own", "status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "the condition plumb.net/NetworkReady only"},
		{"the phase", "own", "status", `{"status":{"phase":"Failed"}}`, "the condition plumb.net/NetworkReady only"},
		{"addresses", "own", "status", `{"status":{"podIPs":[{"ip":"10.0.0.1"}]}}`, "the condition plumb.net/NetworkReady only"},
		{"the pod itself", "own", "", `{"metadata":{"annotations":{"a":"b"}}}`, "cannot patch resource"},
	} {
		err := patch(c.pod, c.subresource, c.body)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	const intents = "/apis/plumb.net/v1alpha1/namespaces/default/podintents/"
	patchIntent := func(name, subresource, body string) error {
		return agent.Patch("application/merge-patch+json").AbsPath(intents + name + subresource).
			Body([]byte(body)).Do(t.Context()).Error()
	}
	a.admin.Want(kubetest.PodIntent{Namespace: "default", Name: "own", Node: "n0", Pod: "own"})
	a.admin.Want(kubetest.PodIntent{Namespace: "default", Name: "other", Node: "n1", Pod: "other"})
	status = `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Configured","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	for end := time.Now().Add(host.Patience); patchIntent("other", "/status", status) == nil && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	if err := patchIntent("own", "/status", status); err != nil {
		t.Errorf("the status of a PodIntent: %v", err)
	}
	if err := patchIntent("other", "/status", status); err == nil || !strings.Contains(err.Error(), "for its own node only") {
		t.Errorf("the status of a PodIntent for another node: %v", err)
	}
	// A node that may write them is limited, too.
	a.admin.AllowNodes("plumb.net", "podintents/status", "patch")
	for name, want := range map[string]string{"own": "", "other": "for its own node only"} {
		n0 := a.server.Client(kubetest.Node("n0")).RESTClient()
		err := n0.Patch("application/merge-patch+json").AbsPath(intents + name + "/status").Body([]byte(status)).Do(t.Context()).Error()
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("the node n0 writes the PodIntent %s: %v, want %q", name, err, want)
		}
	}
	if err := patchIntent("own", "", `{"spec":{"podName":"other"}}`); err == nil || !strings.Contains(err.Error(), "cannot patch resource") {
		t.Errorf("a PodIntent: %v", err)
	}
	for _, path := range []string{"/api/v1/secrets", "/api/v1/configmaps", "/api/v1/nodes/n0", "/api/v1/namespaces/default/services"} {
		if err := agent.Get().AbsPath(path).Do(t.Context()).Error(); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("GET %s: %v", path, err)
		}
	}
	if err := agent.Delete().AbsPath("/api/v1/namespaces/default/pods/own").Do(t.Context()).Error(); err == nil {
		t.Error("the account deletes a pod")
	}
}

// TestNodesAreConfined attacks NodeIntents with the token of the agent of n0, and with the identity of n0: both write only
// what concerns n0.
func TestNodesAreConfined(t *testing.T) {
	a := newAccount(t)
	for resource, verbs := range map[string][]string{"nodeintents/status": {"patch"}, "nodeintents": {"get", "patch"}, "nodeintentstates": {"create", "patch", "delete"}} {
		a.admin.AllowNodes("plumb.net", resource, verbs...)
	}
	a.admin.WantOnNodes("net", "{intent: {interface/lan: {bridge: {}}}}")
	const path = "/apis/plumb.net/v1alpha1/"
	status := func(turns ...string) string {
		var all []string
		for _, node := range turns {
			all = append(all, fmt.Sprintf(`{"node":%q,"generation":1,"since":"2026-01-01T00:00:00Z"}`, node))
		}
		return `{"status":{"applying":[` + strings.Join(all, ",") + `]}}`
	}
	state := func(node string) string {
		return fmt.Sprintf(`{"apiVersion":"plumb.net/v1alpha1","kind":"NodeIntentState","metadata":{"name":"net.%s"},"spec":{"nodeIntent":"net","nodeName":"%[1]s"}}`, node)
	}
	for _, user := range []string{a.token, kubetest.Node("n0")} {
		agent := a.server.Client(user).RESTClient()
		do := func(verb, what, body string) error {
			r := agent.Patch("application/merge-patch+json")
			switch verb {
			case "apply":
				r = agent.Patch("application/apply-patch+yaml")
			case "delete":
				r = agent.Delete()
			}
			return r.AbsPath(path+what).Param("fieldManager", "attack").Body([]byte(body)).Do(t.Context()).Error()
		}
		a.admin.SetStatus("net", status("n1"))
		// The policy and the role count some time after they were created.
		for end := time.Now().Add(host.Patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			err := do("patch", "nodeintents/net/status", status("n1", "n2"))
			if err != nil && strings.Contains(err.Error(), "add only its own node") {
				break
			}
			a.admin.SetStatus("net", status("n1"))
		}
		for _, c := range []struct{ what, verb, path, body, want string }{
			{"its own turn", "patch", "nodeintents/net/status", status("n1", "n0"), ""},
			{"the turn of another node", "patch", "nodeintents/net/status", status("n1", "n2"), "add only its own node"},
			{"another time for a turn", "patch", "nodeintents/net/status", strings.Replace(status("n1"), "2026", "2025", 1), "add only its own node"},
			{"the end of its turn", "patch", "nodeintents/net/status", status("n1"), ""},
			{"counts", "patch", "nodeintents/net/status", `{"status":{"nodes":{"ready":1}}}`, ""},
			{"the NodeIntent itself", "patch", "nodeintents/net", `{"spec":{"maxUnavailable":9}}`, "orbidden"},
			{"its state", "apply", "nodeintentstates/net.n0", state("n0"), ""},
			{"the state of another node", "apply", "nodeintentstates/net.n1", state("n1"), "of its own node"},
			{"its state for another node", "patch", "nodeintentstates/net.n0", `{"spec":{"nodeName":"n1"}}`, "spec is immutable"},
			{"a change of the state of another node", "patch", "nodeintentstates/net.n2", `{"status":{"state":"ready"}}`, "of its own node"},
			{"the deletion of the state of another node", "delete", "nodeintentstates/net.n2", "", "of its own node"},
			{"the deletion of its state", "delete", "nodeintentstates/net.n0", "", ""},
		} {
			a.admin.ShowOnNode("net", "n2")
			err := do(c.verb, c.path, c.body)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s writes %s: %v, want %q", user[:min(len(user), 12)], c.what, err, c.want)
			}
		}
	}
}

// denied returns which requests of the account the API server has denied, as "<verb> <resource>".
func (a *account) denied(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(a.audit)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for line := range bytes.Lines(text) {
		var e struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Subresource string }
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal(line, &e) == nil && e.ResponseStatus.Code == http.StatusForbidden && strings.HasSuffix(e.User.Username, ":plumb-agent") {
			all[strings.TrimSuffix(e.Verb+" "+e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// TestEveryRightIsNeeded takes each right of the role away. The API server then denies just what needed it, and
// with the whole role nothing.
func TestEveryRightIsNeeded(t *testing.T) {
	for _, c := range []struct{ verb, resource string }{
		{}, {"get", "pods"}, {"watch", "pods"}, {"list", "pods"}, {"patch", "pods/status"}, {"create", "events"},
		{"watch", "podintents"}, {"list", "podintents"}, {"patch", "podintents/status"},
		{"watch", "nodes"}, {"list", "nodes"},
		{"get", "nodeintents"}, {"watch", "nodeintents"}, {"list", "nodeintents"}, {"patch", "nodeintents/status"},
		{"watch", "nodeintentstates"}, {"list", "nodeintentstates"}, {"create", "nodeintentstates"}, {"patch", "nodeintentstates"},
		{"delete", "nodeintentstates"},
		{"get", "customresourcedefinitions"},
	} {
		t.Run(strings.ReplaceAll("without "+c.verb+" "+c.resource, "/", "-"), func(t *testing.T) {
			t.Parallel()
			var args []string
			if c.verb == "list" { // servers before 1.34 do not stream lists
				args = []string{"--feature-gates=WatchList=false"}
			}
			a := newAccount(t, args...)
			if c.verb != "" {
				a.admin.RemoveRight("plumb-agent", c.resource, c.verb)
			}
			n := &node{t: t, server: a.server, api: a.admin}
			kubeconfig := a.server.Kubeconfig(a.token, "")
			n.Host = host.New(t, host.Options{NoEngine: true, Args: []string{"--kubeconfig", kubeconfig, "--kubernetes-node", "n0"}})
			n.Start()
			n.pod("web", `{"interface/eth0":{"bridge":{},"mtu":-1}}`) // fails, which is an event
			n.api.Want(kubetest.PodIntent{Namespace: "default", Name: "web", Node: "n0", Pod: "web", Intent: "interface/net1: {bridge: {}}"})
			n.api.WantOnNodes("net", "{intent: {interface/lan: {bridge: {}}}, confirm: {}}")
			n.api.ShowOnNode("gone", "n0") // a state without a NodeIntent
			// The agent asks for a pod by itself that the watch does not bring.
			n.sandbox("s1", "unknown", "00000000-0000-0000-0000-000000000000", strings.Replace(green, "}", `,"wait":2}`, 1)).call("ADD")
			n.Eventually("the requests", func() error {
				want := strings.TrimSpace(c.verb + " " + c.resource)
				if c.verb == "create" && c.resource == "nodeintentstates" {
					want = "patch nodeintentstates" // the request that creates one
				}
				if is := a.denied(t); is != want {
					return fmt.Errorf("denied are %q, want %q", is, want)
				}
				if c.verb == "" && n.events("web") == "" {
					return fmt.Errorf("no event")
				}
				if c.verb == "" && n.api.Ready("default", "web") == "" {
					return fmt.Errorf("the PodIntent has no condition")
				}
				if is := n.api.NodeIntent("net"); c.verb == "" && !strings.HasPrefix(is, "True Configured, 1 of 1") {
					return fmt.Errorf("the NodeIntent is %q", is)
				}
				return nil
			})
		})
	}
}
