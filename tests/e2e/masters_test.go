package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestAdoptOnMaster adopts attachments to networks on an interface of the intent after their records were lost. Their
// configurations are restored from what exists, and nothing is changed.
func TestAdoptOnMaster(t *testing.T) {
	h := host.New(t, host.Options{NoEngine: true, Fast: true})
	networks := map[string]string{
		"c1": `{"cniVersion":"1.0.0","name":"lan","type":"plumb-cni","master":"br-lan","pool":"10.77.0.0/24","hairpinMode":true,"portIsolation":true}`,
		"c2": `{"cniVersion":"1.0.0","name":"upper","type":"plumb-cni","mode":"macvlan","master":"br-lan","linkMode":"private","pool":"10.78.0.0/24"}`,
		"c3": `{"cniVersion":"1.0.0","name":"frames","type":"plumb-cni","master":"br-lan","ipam":{}}`,
	}
	namespaces := map[string]*netlinktest.Namespace{}
	for c := range networks {
		namespaces[c] = h.Mount(c)
	}
	h.Start()
	h.MustCtl("put", "interface/br-lan", `{"bridge":{}}`, "--wait")
	results := map[string]attached{}
	for c, config := range networks {
		r := call(h, "ADD", c, config)
		if r.Code != 0 {
			t.Fatalf("ADD %s: %s%s", c, r.Out, r.Err)
		}
		results[c] = attached{text: r.Out} // the network frames gives no addresses
	}
	before := h.Exact()
	h.Stop()
	if err := os.Remove(filepath.Join(h.StateDir(), "cni/ledger")); err != nil {
		t.Fatal(err)
	}
	h.Launch()
	awaitTold(t, h, "cni/ledger: it is missing")
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("the start changed something:\n%s", diff)
	}
	for c := range networks {
		h.MustCtl("cni", "adopt", c)
		if diff := host.Diff(before, h.Exact()); diff != "" {
			t.Fatalf("adopting %s changed something:\n%s", c, diff)
		}
	}
	h.MustCtl("resync", "--accept")
	h.AwaitReady()
	h.Stop()
	h.Start()
	for c, config := range networks {
		if r := call(h, "CHECK", c, withResult(config, results[c])); r.Code != 0 {
			t.Errorf("CHECK %s: %s%s", c, r.Out, r.Err)
		}
	}
	if out := h.MustCtl("cni"); strings.Count(out, " added ") != len(networks) {
		t.Errorf("attachments:\n%s", out)
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("adopting changed something:\n%s", diff)
	}
	for c, config := range networks {
		if r := call(h, "DEL", c, config); r.Code != 0 {
			t.Errorf("DEL %s: %s%s", c, r.Out, r.Err)
		}
		if names := namespaces[c].Names(t); slices.Contains(names, "eth0") {
			t.Errorf("links in %s after DEL: %q", c, names)
		}
	}
	if keys := fmt.Sprint(h.Keys("interface")); strings.Contains(keys, "cni:") || !strings.Contains(keys, "br-lan") {
		t.Errorf("interfaces after DEL: %s", keys)
	}
}
