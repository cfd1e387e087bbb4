package kubernetes

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
)

// eth0 is an interface with an address that needs nothing of the host. Both ends of its cable are in the pod.
func eth0(address string) string {
	return fmt.Sprintf("interface/eth0: {veth: {peer: far}, addresses: [%s]}\ninterface/far: {veth: {peer: eth0}}", address)
}

// TestAnnotation follows pods of one node from their annotations to their networks: an ADD waits for the
// annotation, a running pod gets and loses interfaces, and a pod that is deleted keeps its network until its
// sandbox is detached.
func TestAnnotation(t *testing.T) {
	n := newNode(t)
	n.Start()
	uid := n.pod("web", eth0("10.9.0.7/24"))
	web := n.sandbox("s1", "web", uid, green)
	if is := web.add(); strings.Join(is, " ") != "10.9.0.7/24" {
		t.Errorf("the ADD answers with %v", is)
	}

	// Hot-plug: an interface is added, swapped and removed.
	seen := func(what, want string) time.Duration {
		t.Helper()
		return n.Within(time.Minute, what, func() error {
			if is := web.links(); is != want {
				return fmt.Errorf("the links are %q, want %q", is, want)
			}
			return nil
		})
	}
	n.want("web", eth0("10.9.0.7/24")+"\ninterface/net1: {bridge: {}}\n")
	t.Logf("an interface is added to a running pod in %s", seen("net1 is added", "eth0 net1"))
	n.want("web", eth0("10.9.0.7/24")+"\ninterface/net2: {bridge: {}}\n")
	seen("net1 is swapped for net2", "eth0 net2")
	n.want("web", eth0("10.9.0.7/24"))
	seen("net2 is removed", "eth0")

	// A text that cannot be read changes nothing, and is reported.
	n.want("web", "interface/eth0: {bridge")
	n.Eventually("the annotation is reported", func() error {
		if s := n.MustCtl("status"); !strings.Contains(s, "default/web") {
			return fmt.Errorf("status:\n%s", s)
		}
		return nil
	})
	if is := web.links(); is != "eth0" {
		t.Errorf("the links are %q", is)
	}
	n.want("web", eth0("10.9.0.7/24"))

	// The pod is deleted at the API server before its sandbox is detached.
	n.api.Remove("default", "web")
	n.pod("other", eth0("10.9.0.8/24")) // comes after the deletion
	n.Await("pending", "interface/pod.default.other.eth0")
	if is := web.links(); is != "eth0" {
		t.Errorf("the links of a pod that is deleted and not detached are %q", is)
	}
	web.del()
	n.Eventually("the values of the pod are withdrawn", func() error {
		if keys := fmt.Sprint(n.Keys("interface")); strings.Contains(keys, "pod.default.web") {
			return fmt.Errorf("%s", keys)
		}
		return nil
	})
}

// TestAddBeforePod attaches sandboxes before the API server has their pods, or their annotations, and before it
// deletes them.
func TestAddBeforePod(t *testing.T) {
	n := newNode(t)
	n.Start()
	// A pod of that name is there, but its UID is another one: as after a StatefulSet has created it again.
	old := n.pod("db-0", eth0("10.9.0.1/24"))
	n.Await("pending", "interface/pod.default.db-0.eth0")
	n.api.Remove("default", "db-0")
	uid := n.pod("db-0", "")
	if old == uid {
		t.Fatal("the API server gives a UID twice")
	}
	db := n.sandbox("s1", "db-0", uid, green)
	done := make(chan []string, 1)
	go func() { done <- db.add() }()
	db.waits()
	began := time.Now()
	n.want("db-0", eth0("10.9.0.2/24"))
	if is := <-done; strings.Join(is, " ") != "10.9.0.2/24" {
		t.Errorf("the ADD answers with %v", is)
	}
	t.Logf("from the annotation to the answer of the ADD: %s", time.Since(began))

	// The sandbox of a pod that is deleted meanwhile fails at once, and not at its limit.
	gone := n.pod("gone", "")
	late := n.sandbox("s2", "gone", gone, green)
	failed := make(chan string, 1)
	go func() { failed <- late.call("ADD").Out }()
	late.waits()
	n.api.Remove("default", "gone")
	select {
	case out := <-failed:
		if !strings.Contains(out, "deleted") {
			t.Errorf("the ADD of a pod that is deleted answers %s", out)
		}
	case <-time.After(20 * time.Second):
		t.Error("the ADD of a pod that is deleted goes on")
	}
}

// TestWithoutServer restarts the agent while the API server cannot be reached: what is attached stays, a pod
// that the agent knew is attached, and the agent is ready.
func TestWithoutServer(t *testing.T) {
	n := newNode(t)
	n.Start()
	uid := n.pod("web", eth0("10.9.0.7/24"))
	web := n.sandbox("s1", "web", uid, green)
	web.add()
	later := n.pod("later", eth0("10.9.0.8/24"))
	n.Await("pending", "interface/pod.default.later.eth0")
	n.saves("10.9.0.8/24")
	n.Kill9()
	n.proxy.Cut()
	n.api.Remove("default", "web") // nobody hears of it
	before := n.Exact()
	n.Start() // waits until the agent is ready
	n.AwaitSettled()
	if is := web.links(); is != "eth0" {
		t.Errorf("the links of the pod that was attached are %q", is)
	}
	if w := n.KernelWrites(); w != 0 {
		t.Errorf("%d kernel writes:\n%s\n%s", w, n.Done(), before)
	}
	if is := n.sandbox("s2", "later", later, green).add(); strings.Join(is, " ") != "10.9.0.8/24" {
		t.Errorf("the ADD of a known pod answers with %v", is)
	}
	n.Eventually("the status reports it", func() error {
		if s := n.MustCtl("status"); !regexp.MustCompile(`(?m)^kubernetes +down`).MatchString(s) {
			return fmt.Errorf("%s", s)
		}
		return nil
	})
	n.proxy.Mend()
	n.Eventually("the API server is reached", func() error {
		if s := n.MustCtl("status"); strings.Contains(s, "down") {
			return fmt.Errorf("%s", s)
		}
		return nil
	})
	if is := web.links(); is != "eth0" {
		t.Errorf("the links of a pod that was deleted meanwhile are %q", is)
	}
	web.del()
	n.Eventually("its values are withdrawn", func() error {
		if keys := fmt.Sprint(n.Keys("interface")); strings.Contains(keys, "pod.default.web") {
			return fmt.Errorf("%s", keys)
		}
		return nil
	})
}

// TestSecondInterface gives a pod that has an address of a pool a further interface by its annotation.
func TestSecondInterface(t *testing.T) {
	n := newNode(t)
	n.Start()
	uid := n.pod("web", "interface/net1: {bridge: {}, addresses: [10.9.0.7/24]}\nroute/far: {interface: net1, destination: 10.10.0.0/16}\n")
	web := n.sandbox("s1", "web", uid, blue)
	web.add()
	n.AwaitConfigured("interface/pod.default.web.net1", "route/pod.default.web.far")
	if is := web.links(); is != "eth0 net1" {
		t.Errorf("the links are %q", is)
	}
	web.del()
	if is := web.links(); strings.Contains(is, "eth0") {
		t.Errorf("the links after DEL are %q", is)
	}
}

var again = flag.Int("again", 10, "how often TestCreatedAgain creates a pod again")

// TestCreatedAgain creates a pod again under its name while the sandbox of the one before still runs, which is detached
// late, as after the node was cut from the API server and the pod was deleted by force. No network of one gets into the
// other.
func TestCreatedAgain(t *testing.T) {
	n := newNode(t)
	n.Start()
	var old *sandbox
	for i := range *again {
		address := fmt.Sprintf("10.9.%d.%d/16", i/200, 1+i%200)
		now := n.sandbox(fmt.Sprintf("s%d", i), "db-0", n.pod("db-0", eth0(address)), green)
		if is := strings.Join(now.add(), " "); is != address {
			t.Fatalf("the ADD of pod %d answers with %s, want %s", i, is, address)
		}
		if old != nil {
			old.del()
			if is := old.links(); is != "" {
				t.Errorf("the links of the sandbox before are %q", is)
			}
		}
		if is := now.links(); is != "eth0" {
			t.Errorf("the links of sandbox %d after the late DEL are %q", i, is)
		}
		old = now
		n.api.Remove("default", "db-0")
	}
	old.del()
	n.Eventually("nothing is left", func() error {
		if keys := fmt.Sprint(n.Keys("interface")); strings.Contains(keys, "pod.default.db-0") {
			return fmt.Errorf("%s", keys)
		}
		return nil
	})
}

// TestStaticPod attaches a pod that the kubelet runs from a file. The API server has a mirror of it with another UID;
// the runtime passes that of the file.
func TestStaticPod(t *testing.T) {
	n := newNode(t)
	n.Start()
	const hash = "6f1e2c0b9f9a3c5d"
	n.api.Create(kubetest.Pod{Namespace: "default", Name: "static-n0", Node: "n0", Annotations: map[string]string{
		"plumb.net/intent": eth0("10.9.0.7/24"), "kubernetes.io/config.mirror": hash, "kubernetes.io/config.hash": hash}})
	s := n.sandbox("s1", "static-n0", hash, green)
	if is := strings.Join(s.add(), " "); is != "10.9.0.7/24" {
		t.Errorf("the ADD answers with %s", is)
	}
	n.shows("static-n0", "True Configured, ready")
	s.del()
}
