package cni

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/cri/critest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// measured is what the gauge has noted of one call.
type measured struct {
	Plugin, Pod, Command, Address string
	Call, Ping                    time.Duration
	Error                         string
}

// TestParallel: many sandboxes come up at once. All reach their gateway at
// the moment when their ADD returns, no two have one address, all go, and nothing of
// them is left. Turn and turn about the plugins bridge and host-local do the same; how long
// both take is told.
func TestParallel(t *testing.T) {
	n := newNode(t, host.Options{Fast: true})
	n.gauge()
	n.host.Start()
	before := n.left()
	took := map[string][]time.Duration{}
	for round := range 2 {
		for _, plugin := range []string{"bridge", "ours"} {
			n.wave(plugin, *sandboxes)
			by := map[string]string{}
			for _, m := range n.measured() {
				if other := by[m.Address]; m.Command == "ADD" && other != "" {
					t.Errorf("%s and %s both have %s", other, m.Pod, m.Address)
				}
				by[m.Address] = m.Pod
				if m.Error != "" {
					t.Errorf("%s of %s by %s: %s", m.Command, m.Pod, m.Plugin, m.Error)
				}
				if m.Command == "ADD" {
					took[m.Plugin] = append(took[m.Plugin], m.Call+m.Ping)
				}
			}
			if plugin == "bridge" { // it leaves its bridge
				n.host.Own.IP(t, "link delete other0")
			}
			n.sameAs(before, fmt.Sprintf("after wave %d by %s", round, plugin))
		}
	}
	for plugin, all := range took {
		if len(all) != 2**sandboxes {
			t.Errorf("%s: %d calls of ADD, want %d", plugin, len(all), 2**sandboxes)
		}
	}
	if t.Failed() {
		return
	}
	for _, q := range []int{50, 99} {
		ours, bridge := quantile(took["ours"], q), quantile(took["bridge"], q)
		t.Logf("ADD up to an echo of the gateway, %d at once, p%d: %v; bridge and host-local %v; ratio %.2f",
			*sandboxes, q, ours.Round(100*time.Microsecond), bridge.Round(100*time.Microsecond), float64(ours)/float64(bridge))
	}
}

func quantile(list []time.Duration, q int) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[min(len(list)-1, len(list)*q/100)]
}

// gauge puts the gauge before plumb-cni for pods called ours-N, and before the plugin
// bridge for those called bridge-N.
func (n *node) gauge() {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), "gauge")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./gauge")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	n.AddPlugin(path)
	n.network(n.gauged())
}

func (n *node) gauged() string {
	return fmt.Sprintf(`{"type": "gauge", "gauge": {"file": %q, "plugins": {"ours": %s, "bridge": %s}}}`,
		n.measures(), n.plugin("cni.sock"), n.bridge())
}

// bridge is the plugin bridge with addresses by host-local, which do what plumb-cni does.
func (n *node) bridge() string {
	return fmt.Sprintf(`{"type": "bridge", "bridge": "other0", "isGateway": true, "ipam":
		{"type": "host-local", "dataDir": %q, "subnet": "10.91.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}}`, n.Dir+"/addresses")
}

func (n *node) measures() string { return filepath.Join(n.Dir, "measures") }

// measured takes what the gauge has noted since the last time.
func (n *node) measured() (all []measured) {
	n.t.Helper()
	text, err := os.ReadFile(n.measures())
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var m measured
		if err := json.Unmarshal(line, &m); err != nil {
			n.t.Fatal(err)
		}
		all = append(all, m)
	}
	if err := os.Remove(n.measures()); err != nil {
		n.t.Fatal(err)
	}
	return all
}

// wave runs so many sandboxes at once, and when all are up removes them at once.
func (n *node) wave(plugin string, count int) {
	n.t.Helper()
	ids := make([]string, count)
	n.each(count, func(i int) (err error) {
		ids[i], err = n.RunPod(n.t.Context(), critest.Pod{Name: fmt.Sprintf("%s-%d", plugin, i)})
		return err
	})
	all := n.inside()
	if len(all) != count {
		n.t.Errorf("%d sandboxes are up, want %d", len(all), count)
	}
	n.each(count, func(i int) error {
		if ids[i] == "" {
			return nil
		}
		return n.RemovePod(n.t.Context(), ids[i])
	})
}

// each does something so many times at once.
func (n *node) each(count int, do func(i int) error) {
	n.t.Helper()
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			if err := do(i); err != nil {
				n.t.Errorf("sandbox %d: %v", i, err)
			}
		})
	}
	all.Wait()
}
