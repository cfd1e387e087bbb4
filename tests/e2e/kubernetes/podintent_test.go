package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
)

// wantBy creates or changes a PodIntent for a pod.
func (n *node) wantBy(name, pod, intent string) {
	n.t.Helper()
	n.api.Want(kubetest.PodIntent{Namespace: "default", Name: name, Node: "n0", Pod: pod, Intent: intent})
}

// isReady waits until the condition Ready of a PodIntent begins with a text.
func (n *node) isReady(name, want string) {
	n.t.Helper()
	n.Eventually(want, func() error {
		if is := n.api.Ready("default", name); !strings.HasPrefix(is, want) {
			return fmt.Errorf("the PodIntent %s is %q", name, is)
		}
		return nil
	})
}

// TestPodIntent attaches a pod whose values come from a PodIntent, changes them while it runs, and follows the statuses
// of both.
func TestPodIntent(t *testing.T) {
	n := newNodeOf(t, kubetest.Admin)
	n.api.ServePodIntents()
	n.Start()
	n.wantBy("early", "nosuch", eth0("10.9.0.9/24"))
	n.isReady("early", "False Pending, the node n0 has no pod default/nosuch")

	// The ADD waits for the PodIntent.
	uid := n.pod("web", "")
	web := n.sandbox("s1", "web", uid, green)
	done := make(chan []string, 1)
	go func() { done <- web.add() }()
	web.waits()
	began := time.Now()
	n.wantBy("net", "web", eth0("10.9.0.7/24"))
	if is := <-done; strings.Join(is, " ") != "10.9.0.7/24" {
		t.Errorf("the ADD answers with %v", is)
	}
	t.Logf("from the PodIntent to the answer of the ADD: %s", time.Since(began))
	n.isReady("net", "True Configured, ")
	n.shows("web", "True Configured, ready")

	// Hot-plug.
	links := func(want string) {
		t.Helper()
		n.Eventually("the links "+want, func() error {
			if is := web.links(); is != want {
				return fmt.Errorf("the links are %q", is)
			}
			return nil
		})
	}
	n.wantBy("net", "web", eth0("10.9.0.7/24")+"\ninterface/net1: {bridge: {}}\n")
	links("eth0 net1")
	n.isReady("net", "True Configured, ")
	n.wantBy("more", "web", "interface/net2: {bridge: {}}\ninterface/net1: {bridge: {}, mtu: 1400}\n")
	links("eth0 net1 net2")
	n.isReady("more", "False Failed, interface/net1: the older PodIntent net has this key too")
	n.shows("web", "True Configured, ready")
	n.wantBy("more", "web", "interface/net2: {bridge: {}}\nroute/far: {interface: net3, destination: 10.10.0.0/16}\n")
	n.isReady("more", "False Pending, route/far is pending: interface/net3 is not there")
	n.shows("web", "False Pending, pending route/far is pending: interface/net3 is not there")
	n.api.Unwant("default", "more")
	links("eth0 net1")
	n.shows("web", "True Configured, ready")

	// The annotation overrides the PodIntent.
	n.want("web", "interface/net1: {bridge: {}}")
	n.isReady("net", "False Failed, interface/net1: the annotation plumb.net/intent of the pod has this key too")
	n.api.Unannotate("default", "web", "plumb.net/intent")
	n.isReady("net", "True Configured, ")
	n.shows("web", "True Configured, ready")

	// At rest nothing is written.
	version := n.api.Get("default", "web").ResourceVersion
	time.Sleep(3 * time.Second)
	if is := n.api.Get("default", "web").ResourceVersion; is != version {
		t.Errorf("the pod is written at rest: version %s, then %s", version, is)
	}

	// The agent starts without the API server and knows the PodIntents.
	later := n.pod("later", "")
	n.wantBy("later", "later", eth0("10.9.0.8/24"))
	n.Await("pending", "interface/pod.default.later.eth0")
	n.saves("10.9.0.8/24")
	n.Kill9()
	n.proxy.Cut()
	n.Start()
	if is := n.sandbox("s2", "later", later, green).add(); strings.Join(is, " ") != "10.9.0.8/24" {
		t.Errorf("the ADD of a known pod answers with %v", is)
	}
	links("eth0 net1")
	n.proxy.Mend()

	n.api.Unwant("default", "net")
	links("")
	n.shows("web", "no condition,")
	web.del()
}
