package kubernetes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// edge returns the spec of a NodeIntent that wants a bridge on nodes with the label role=edge.
func edge(mtu int, more string) string {
	return fmt.Sprintf("{nodeSelector: {matchLabels: {role: edge}}, intent: {interface/lan: {bridge: {}, mtu: %d, addresses: [10.66.0.1/24]}%s", mtu, more)
}

// TestNodeIntents rolls NodeIntents out to the agents of five nodes, in five namespaces: with a node where a change
// fails, a probe that fails, an agent that is killed, a node that leaves the selector, and two NodeIntents for one key.
func TestNodeIntents(t *testing.T) {
	s := kubetest.Start(t)
	api := s.Client(kubetest.Admin)
	api.ServeNodeIntents()
	nodes := map[string]*node{}
	var names []string
	for i := range 5 {
		name := fmt.Sprint("n", i)
		names = append(names, name)
		api.CreateNode(name, "role=edge")
		n := &node{t: t, server: s, api: api, proxy: etcdtest.StartProxy(t, s.Addr())}
		kubeconfig := s.Kubeconfig(kubetest.Admin, strings.TrimPrefix(n.proxy.URL(), "http://"))
		n.Host = host.New(t, host.Options{NoEngine: true, Args: []string{"--kubeconfig", kubeconfig, "--kubernetes-node", name}})
		n.Start()
		nodes[name] = n
	}
	is := func(want string) {
		t.Helper()
		nodes["n0"].Eventually(want, func() error {
			if is := api.NodeIntent("lan"); !strings.HasPrefix(is, want) {
				return fmt.Errorf("the NodeIntent is %q", is)
			}
			return nil
		})
	}
	// mtus returns the MTUs of the bridge on all nodes.
	mtus := func() string {
		var all []string
		for _, name := range names {
			mtu := "none"
			if slices.Contains(nodes[name].Own.Names(t), "lan") {
				mtu = fmt.Sprint(nodes[name].Own.Show(t, "lan")["mtu"])
			}
			all = append(all, mtu)
		}
		return strings.Join(all, " ")
	}
	have := func(want string) {
		t.Helper()
		nodes["n0"].Eventually(want, func() error {
			if is := mtus(); is != want {
				return fmt.Errorf("the MTUs are %s", is)
			}
			return nil
		})
	}

	most := api.MostApplying("lan")
	api.WantOnNodes("lan", edge(1400, "}}"))
	is("True Configured, 5 of 5 nodes are ready []")
	have("1400 1400 1400 1400 1400")
	if n := most(); n != 1 {
		t.Errorf("%d nodes applied it at once", n)
	}

	// n2 has a link of the host where the change wants one. The change is reverted there, and the link stays.
	nodes["n2"].Own.IP(t, "link add wan type bridge")
	api.WantOnNodes("lan", edge(1300, ", interface/wan: {bridge: {}}}, confirm: {timeout: 4s, probes: [key:interface/wan]}}"))
	is("False Reverted, ")
	state := api.NodeIntentState("lan", "n2")
	if !strings.Contains(state, "reverted 1: it did not work until ") || !strings.Contains(state, "interface/wan is ") {
		t.Errorf("n2 shows %q", state)
	}
	if nodes["n2"].Own.Show(t, "lan")["mtu"] != 1400.0 || !slices.Contains(nodes["n2"].Own.Names(t), "wan") {
		t.Errorf("n2 has %v, lan %v", nodes["n2"].Own.Names(t), nodes["n2"].Own.Show(t, "lan"))
	}
	before := mtus()

	// Agents that restart, n2 with it, change nothing.
	nodes["n2"].Kill9()
	nodes["n2"].Start()
	nodes["n4"].Kill9()
	nodes["n4"].Start()
	nodes["n2"].AwaitConfigured("interface/lan")
	have(before)
	is("False Reverted, ")

	// A probe fails on all nodes: the first reverts, and the others keep what they have. n2 still has its turn.
	nodes["n2"].Own.IP(t, "link del wan")
	api.WantOnNodes("lan", edge(1200, "}, confirm: {timeout: 2s, probes: ['tcp:127.0.0.1:1']}}"))
	is("False Reverted, 0 of 5 nodes are ready; on n2 it is reverted: ")
	have(before)

	api.WantOnNodes("lan", edge(1200, "}, confirm: {timeout: 60s, probes: ['key:interface/lan']}, maxUnavailable: 50%}"))
	is("True Configured, 5 of 5 nodes are ready []")
	have("1200 1200 1200 1200 1200")

	// A newer NodeIntent for the same key.
	api.WantOnNodes("other", "{nodeSelector: {matchExpressions: [{key: role, operator: Exists}]}, intent: {interface/lan: {bridge: {}, mtu: 1100}}}")
	nodes["n0"].Eventually("the refusal", func() error {
		if is := api.NodeIntent("other"); !strings.Contains(is, "the older NodeIntent lan has this key too") {
			return fmt.Errorf("the NodeIntent is %q", is)
		}
		return nil
	})
	have("1200 1200 1200 1200 1200")
	api.UnwantOnNodes("other")

	// A node leaves, and an operator overrides the NodeIntent on another.
	api.Label("n3", "role", "core")
	nodes["n1"].Put("interface/lan", `{"bridge":{},"mtu":1350}`)
	have("1200 1350 1200 none 1200")
	is("True Configured, 4 of 4 nodes are ready []")

	// The API server is away: what is there stays, also over a restart.
	nodes["n0"].proxy.Cut()
	nodes["n0"].Stop()
	nodes["n0"].Start()
	nodes["n0"].AwaitConfigured("interface/lan")
	nodes["n0"].proxy.Mend()
	if out := nodes["n0"].MustCtl("status"); !strings.Contains(out, "kubernetes-nodes") {
		t.Errorf("agentctl status does not show the source:\n%s", out)
	}
	if _, err := os.Stat(nodes["n0"].StateDir() + "/nodeintents.json"); err != nil {
		t.Error(err)
	}

	// A change is on trial when the agent is killed. It is taken back at the next start, without the API server.
	api.WantOnNodes("trial", "{nodeSelector: {matchLabels: {kubernetes.io/hostname: n0}}, intent: {interface/extra: {bridge: {}}}, "+
		"confirm: {timeout: 5s, probes: ['tcp:127.0.0.1:1']}}")
	api.Label("n0", "kubernetes.io/hostname", "n0")
	nodes["n0"].AwaitConfigured("interface/extra")
	nodes["n0"].Kill9()
	nodes["n0"].proxy.Cut()
	time.Sleep(6 * time.Second)
	nodes["n0"].Start()
	nodes["n0"].Eventually("the change is taken back", func() error {
		if is := nodes["n0"].Own.Names(t); slices.Contains(is, "extra") {
			return fmt.Errorf("the links are %v", is)
		}
		return nil
	})
	nodes["n0"].proxy.Mend()
	nodes["n0"].Eventually("the revert is shown", func() error {
		if is := api.NodeIntentState("trial", "n0"); !strings.HasPrefix(is, "reverted 0: it did not work until ") {
			return fmt.Errorf("the state is %q", is)
		}
		return nil
	})
	api.UnwantOnNodes("trial")

	api.UnwantOnNodes("lan")
	have("none 1350 none none none")
}
