package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/cri/critest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// kill says who is killed when.
type kill struct {
	who     string // plugin, agent or containerd
	command string // ADD or DEL; of the agent's failpoints the first that comes to it
	place   string // of the wiretap, or a failpoint of the agent and which time
}

func (k kill) String() string { return strings.TrimSpace(k.who + " at " + k.place + " " + k.command) }

// allKills: each of the three at each place of the talk, and the agent between all steps
// of what it does.
func allKills() (all []kill) {
	for _, who := range []string{"plugin", "agent", "containerd"} {
		for _, command := range []string{"ADD", "DEL"} {
			for _, place := range places {
				all = append(all, kill{who, command, place})
			}
		}
	}
	for _, point := range []string{
		"attachment/recorded=1", "ipclaim/recorded=1", "interface/recorded=1", "interface/made=1", "interface/marked=1",
		"address/recorded=1", "address/made=1", "route/recorded=1", "route/made=1", "attachment/recorded=2",
		"attachment/recorded=3", "interface/deleted=1", "ipclaim/freed=1", "attachment/erased=1",
	} {
		all = append(all, kill{who: "agent", place: point})
	}
	return all
}

// TestKills: agent, plugin or containerd are killed while a pod comes and goes, in
// turn at each boundary of ADD and DEL. When they are back and the pod was deleted, or GC
// was called for one that the killed containerd forgot, nothing of it is left, and the pod
// beside it has lost no packet.
func TestKills(t *testing.T) {
	n := newNode(t, host.Options{Fast: true})
	tap := n.tap("tapped.sock")
	n.network(n.plugin("tapped.sock"))
	n.host.Start()
	neighbour, err := n.RunPod(t.Context(), critest.Pod{Name: "neighbour"})
	if err != nil {
		t.Fatal(err)
	}
	unharmed := host.Ping(t, n.inside()[0], gateway)
	before := n.left()

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	all := allKills()
	for round := range *kills {
		if round%len(all) == 0 {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		k := all[round%len(all)]
		began := time.Now()
		n.dies(k, tap)
		n.recover(neighbour)
		n.sameAs(before, fmt.Sprintf("round %d, %s:", round, k))
		t.Logf("round %d: %s, %v", round, k, time.Since(began).Round(time.Millisecond))
	}
	unharmed()
	if err := n.RemovePod(t.Context(), neighbour); err != nil {
		t.Error(err)
	}
}

// dies lets a pod come and go, and kills as it is told.
func (n *node) dies(k kill, tap *wiretap) {
	n.t.Helper()
	if k.command == "" {
		n.host.Stop()
		n.host.Env = []string{"PLUMB_FAILPOINT=" + k.place}
		n.host.Launch()
		n.host.Env = nil
		n.host.Eventually("the agent is ready", func() error {
			if !n.host.Running() {
				n.t.Fatalf("%s: it died before anything was asked of it", k)
			}
			_, err := n.host.HTTP("/readyz")
			return err
		})
	} else {
		tap.arm(k.command, k.place, func(plugin int) {
			switch k.who {
			case "plugin":
				_ = syscall.Kill(plugin, syscall.SIGKILL)
			case "agent":
				n.host.Kill9()
			case "containerd":
				n.Kill()
			}
		})
	}
	ctx := n.t.Context()
	if id, err := n.RunPod(ctx, critest.Pod{Name: "victim"}); err == nil {
		_ = n.RemovePod(ctx, id)
	}
	if k.command == "" && !n.host.AwaitEnd(host.Patience) || k.command != "" && !tap.disarm() {
		n.t.Errorf("%s: it was not killed", k)
	}
}

// recover brings back who was killed and does what a kubelet would: all pods go but one.
// containerd forgets a sandbox when it is killed before it has its network: then it is for
// GC, and for who runs the machine to clear away the namespace.
func (n *node) recover(but string) {
	n.t.Helper()
	ctx := n.t.Context()
	if n.Ready(ctx) != nil {
		n.Up()
	}
	if !n.host.Running() {
		n.host.Start()
	}
	n.clearTorn()
	n.host.Eventually("the pods go", func() error {
		ids, err := n.Pods(ctx)
		for _, id := range ids {
			if id != but {
				err = errors.Join(err, n.RemovePod(ctx, id))
			}
		}
		return err
	})
	config := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": %q, "type": "plumb-cni", "pool": %q, "cni.dev/valid-attachments": [{"containerID": %q, "ifname": "eth0"}]}`,
		n.Network(), pool, but)
	if r := n.host.CNI(host.CNICall{Command: "GC", Config: config}); r.Code != 0 {
		n.t.Errorf("GC: exit %d: %s%s", r.Code, r.Out, r.Err)
	}
	n.clear(but)
}

// clear removes what containerd itself has left: namespaces without a sandbox, and what its
// library remembers of them.
func (n *node) clear(but string) {
	n.t.Helper()
	keep, err := n.Netns(n.t.Context(), but)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, path := range n.inside() {
		if path != keep {
			_ = syscall.Unmount(path, syscall.MNT_DETACH)
			_ = os.Remove(path)
		}
	}
	for _, f := range n.results() {
		if !strings.Contains(f, but) {
			_ = os.Remove(f)
		}
	}
}

// clearTorn removes what containerd's library was writing of a network when containerd
// was killed. It could never read that again, and so never delete the pod: an operator
// has to do the same.
func (n *node) clearTorn() {
	n.t.Helper()
	for _, f := range n.results() {
		if text, err := os.ReadFile(f); err == nil && !json.Valid(text) {
			n.t.Logf("%s is torn: %d bytes", filepath.Base(f), len(text))
			_ = os.Remove(f)
		}
	}
}

// results are the files in which containerd's library remembers who is on the network.
func (n *node) results() []string {
	files, _ := filepath.Glob("/var/lib/cni/results/" + n.Network() + "-*")
	return files
}
