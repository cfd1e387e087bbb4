package kubernetes

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestNetworkStatus follows the annotation network-status of a pod while it is attached to two networks and detached from
// them: without an annotation plumb.net/intent, and with one.
func TestNetworkStatus(t *testing.T) {
	n := newNodeWith(t, "--kubernetes-network-status")
	n.Start()
	mac := regexp.MustCompile(`"mac":"[0-9a-f:]{17}"`)
	shows := func(pod, want string) {
		t.Helper()
		n.Eventually(want, func() error {
			is := n.api.Get("default", pod).Annotations["k8s.v1.cni.cncf.io/network-status"]
			if is = mac.ReplaceAllString(is, `"mac":"…"`); is != want {
				return fmt.Errorf("the annotation is %s", is)
			}
			return nil
		})
	}
	const blueIs = `{"name":"blue","interface":"eth0","ips":["10.62.0.%d"],"mac":"…","mtu":1500,"default":true,"gateway":["10.62.0.1"],"dns":{}}`
	for i, intent := range []string{"", `interface/extra: {bridge: {}}`} {
		name := fmt.Sprint("web-", i)
		uid := n.pod(name, intent)
		s := n.sandbox(fmt.Sprint("s", i), name, uid, blue)
		s.add()
		first := fmt.Sprintf(blueIs, i+2)
		shows(name, "["+first+"]")
		second := *s
		second.network, second.iface = `{"cniVersion":"1.0.0","name":"red","type":"plumb-cni","pool":"10.63.0.0/24","mtu":1400}`, "net1"
		second.add()
		both := "[" + first + `,{"name":"red","interface":"net1","ips":["10.63.0.2"],"mac":"…","mtu":1400,"gateway":["10.63.0.1"],"dns":{}}]`
		shows(name, both)
		if i == 0 { // it is written again
			n.api.Unannotate("default", name, "k8s.v1.cni.cncf.io/network-status")
			shows(name, both)
		}
		second.del()
		shows(name, "["+first+"]")
	}
}

// newNodeWith returns a node whose agent has the identity of the node, and further flags.
func newNodeWith(t *testing.T, flags ...string) *node {
	t.Helper()
	n := newNode(t)
	n.Host.Options = host.Options{NoEngine: true, Args: append(n.Host.Options.Args, flags...)}
	return n
}
