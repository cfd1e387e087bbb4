package agent

import (
	"strings"
	"testing"
)

// TestSourcesOf: who writes into the store overrides who writes a file, and an attachment comes before the
// file too.
func TestSourcesOf(t *testing.T) {
	for want, c := range map[string]Config{"etcd cni ledger": {}, "etcd cni file ledger": {Intent: "/etc/plumb/intent"},
		"etcd cni file kubernetes-nodes kubernetes ledger": {Intent: "/etc/plumb/intent", Kubeconfig: "/etc/kubernetes/kubelet.conf"}} {
		if is := strings.Join(sourcesOf(c), " "); is != want {
			t.Errorf("sources %s, want %s", is, want)
		}
	}
}
