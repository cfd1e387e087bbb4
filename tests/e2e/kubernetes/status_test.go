package kubernetes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// shown returns what the API server shows of the network of a pod: the condition, and the state and the reason of
// the annotation.
func (n *node) shown(name string) string {
	n.t.Helper()
	p := n.api.Get("default", name)
	condition := "no condition"
	for _, c := range p.Status.Conditions {
		if c.Type == "plumb.net/NetworkReady" {
			condition = fmt.Sprintf("%s %s", c.Status, c.Reason)
		}
	}
	var st struct{ Observed, State, Reason string }
	if text, ok := p.Annotations["plumb.net/status"]; ok {
		if err := json.Unmarshal([]byte(text), &st); err != nil || st.Observed == "" {
			n.t.Fatalf("%v: %s", err, text)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%s, %s %s", condition, st.State, st.Reason))
}

// shows waits until the API server shows what begins with a text.
func (n *node) shows(name, want string) {
	n.t.Helper()
	n.Eventually(want, func() error {
		if is := n.shown(name); !strings.HasPrefix(is, want) {
			return fmt.Errorf("shown is %s", is)
		}
		return nil
	})
}

// events are the events of a pod, in their order.
func (n *node) events(name string) string { return strings.Join(n.api.Events("default", name), ", ") }

// TestStatus follows what the API server shows of the network of a pod while that is pending, ready, failed, and
// ready again.
func TestStatus(t *testing.T) {
	n := newNode(t)
	n.Start()
	uid := n.pod("web", eth0("10.9.0.7/24"))
	n.pod("plain", "")
	n.shows("web", "False Pending, pending interface/eth0 is pending: no runtime has attached the pod")
	web := n.sandbox("s1", "web", uid, green)
	web.add()
	n.shows("web", "True Configured, ready")
	n.want("web", eth0("10.9.0.7/24")+"\nroute/far: {interface: net1, destination: 10.10.0.0/16}\n")
	n.shows("web", "False Pending, pending route/far is pending: interface/net1 is not there")
	n.want("web", eth0("10.9.0.7/24")+"\nroute/far: {interface: net1, destination: 10.10.0.0/8}\n")
	n.shows("web", "False Failed, failed route/far is invalid: destination: ")
	n.want("web", eth0("10.9.0.7/24"))
	n.shows("web", "True Configured, ready")
	n.want("web", "interface/eth0: {bridge")
	n.shows("web", "False Failed, failed plumb.net/intent:1: ")
	n.want("web", eth0("10.9.0.7/24"))
	n.shows("web", "True Configured, ready")
	n.Eventually("an event for each failure and each recovery", func() error {
		if is, want := n.events("web"), "Warning NetworkFailed, Normal NetworkReady, Warning NetworkFailed, Normal NetworkReady"; is != want {
			return fmt.Errorf("%s, want %s", is, want)
		}
		return nil
	})

	// At rest nothing is written, and what others remove is written again.
	version := n.api.Get("default", "web").ResourceVersion
	time.Sleep(3 * time.Second)
	if is := n.api.Get("default", "web").ResourceVersion; is != version {
		t.Errorf("the pod is written at rest: version %s, then %s", version, is)
	}
	n.api.Unannotate("default", "web", "plumb.net/status")
	n.shows("web", "True Configured, ready")
	if is := n.shown("plain"); is != "no condition," {
		t.Errorf("a pod that wants nothing shows %s", is)
	}
	n.api.Unannotate("default", "web", "plumb.net/intent")
	n.shows("web", "no condition,")
}
