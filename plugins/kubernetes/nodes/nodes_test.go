package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/plugins/kubernetes/nodes"
	"github.com/plumb-net/plumb/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is an API server with nodes.
type cluster struct {
	*kubetest.Server
	t     *testing.T
	api   *kubetest.Client
	nodes map[string]*node
}

// node is a node whose agent makes interfaces in memory.
type node struct {
	name   string
	proxy  *etcdtest.Proxy
	file   string
	source *nodes.Source
	stop   func()

	mu sync.Mutex
	// links are the MTUs of the interfaces that there are.
	links map[string]uint32
	// poison is the MTU that the node refuses.
	poison uint32
	// dead makes probes fail.
	dead bool
}

// newCluster returns a cluster of n nodes, n0 and so on, with the label role=edge.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	t.Parallel()
	s := kubetest.Start(t)
	c := &cluster{Server: s, t: t, api: s.Client(kubetest.Admin), nodes: map[string]*node{}}
	c.api.ServeNodeIntents()
	for i := range n {
		name := fmt.Sprint("n", i)
		c.api.CreateNode(name, "role=edge")
		c.nodes[name] = &node{name: name, proxy: etcdtest.StartProxy(t, s.Addr()), file: filepath.Join(t.TempDir(), "nodeintents.json"), links: map[string]uint32{}}
		c.start(name)
	}
	return c
}

// start starts the agent of a node.
func (c *cluster) start(name string) {
	c.t.Helper()
	n := c.nodes[name]
	sched := scheduler.New(scheduler.Options{Sources: []string{nodes.Name}})
	_, err := scheduler.Register(sched, scheduler.Descriptor[*models.Interface, struct{}]{
		Name: "interface", Prefix: "interface/",
		Equal: func(_ scheduler.Key, a, b *models.Interface) bool { return proto.Equal(a, b) },
		Create: func(_ context.Context, k scheduler.Key, v *models.Interface) (struct{}, error) {
			return struct{}{}, n.make(k, v)
		},
		Update: func(_ context.Context, k scheduler.Key, _, v *models.Interface, _ struct{}) (struct{}, error) {
			return struct{}{}, n.make(k, v)
		},
		Delete: func(_ context.Context, k scheduler.Key, _ *models.Interface, _ struct{}) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.links, string(k))
			return nil
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n.source = nodes.New(sched, nodes.Options{
		Kubeconfig: c.Kubeconfig(kubetest.Admin, strings.TrimPrefix(n.proxy.URL(), "http://")), Node: name, File: n.file,
		Decode: models.Decode, Engine: sched,
		Probe: func(context.Context, string) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.dead {
				return errors.New("no answer")
			}
			return nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = sched.Run(ctx) })
	running.Go(func() {
		if err := n.source.Run(ctx); err != nil {
			c.t.Error(err)
		}
	})
	n.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	c.t.Cleanup(n.stop)
}

func (n *node) make(k scheduler.Key, v *models.Interface) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.poison != 0 && v.GetMtu() == n.poison {
		return fmt.Errorf("no MTU of %d", v.GetMtu())
	}
	n.links[string(k)] = v.GetMtu()
	return nil
}

func (n *node) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// text returns the interfaces as NAME=MTU.
func (n *node) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for _, k := range slices.Sorted(maps.Keys(n.links)) {
		all = append(all, fmt.Sprintf("%s=%d", strings.TrimPrefix(k, "interface/"), n.links[k]))
	}
	return strings.Join(all, " ")
}

// eventually waits until a function returns a text.
func (c *cluster) eventually(name string, f func() string, want string) {
	c.t.Helper()
	var is string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is = f(); is == want || strings.HasSuffix(want, "…") && strings.HasPrefix(is, strings.TrimSuffix(want, "…")) {
			return
		}
	}
	for _, n := range c.nodes {
		h := n.source.Health()
		c.t.Logf("%s: %s; %s, %s", n.name, n.text(), h.State, h.Reason)
	}
	c.t.Fatalf("%s: %s\nwant %s", name, is, want)
}

// have waits until nodes have interfaces.
func (c *cluster) have(want string, names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.eventually(name, c.nodes[name].text, want)
	}
}

// is waits until the API server describes a NodeIntent with a text.
func (c *cluster) is(name, want string) {
	c.t.Helper()
	c.eventually(name, func() string { return c.api.NodeIntent(name) }, want)
}

// shows waits until the NodeIntentState of a node has a text.
func (c *cluster) shows(name, node, want string) {
	c.t.Helper()
	c.eventually(name+" on "+node, func() string { return c.api.NodeIntentState(name, node) }, want)
}

// spec returns the spec of a NodeIntent that wants an interface with an MTU on edges.
func spec(mtu int, more string) string {
	return fmt.Sprintf("{nodeSelector: {matchLabels: {role: edge}}, intent: {interface/a: {dummy: {}, mtu: %d}}%s}", mtu, more)
}

// TestRollout applies a NodeIntent to five nodes: one after the other, against a node where it fails, with a correction,
// and to a node that leaves the selector.
func TestRollout(t *testing.T) {
	c := newCluster(t, 5)
	all := []string{"n0", "n1", "n2", "n3", "n4"}
	c.api.WantOnNodes("net", spec(1400, ""))
	most := c.api.MostApplying("net")
	c.have("a=1400", all...)
	c.is("net", "True Configured, 5 of 5 nodes are ready []")
	c.shows("net", "n3", "ready 1: ")
	if n := most(); n != 1 {
		t.Errorf("%d nodes applied it at once", n)
	}

	// A wrong change stops at the first node where it fails.
	for _, name := range all {
		c.nodes[name].set(func() { c.nodes[name].poison = 1300 })
	}
	c.api.WantOnNodes("net", spec(1300, ""))
	c.eventually("the rollout", func() string {
		is := c.api.NodeIntent("net")
		return is[:strings.Index(is+";", ";")]
	}, "False Failed, 0 of 5 nodes are ready")
	stuck := strings.Join(c.api.Applying("net"), " ")
	t.Logf("it failed on %s: %s", stuck, c.api.NodeIntentState("net", stuck))
	c.shows("net", stuck, "failed 2: interface/a is …")
	for _, name := range all {
		if name != stuck {
			c.have("a=1400", name)
			c.shows("net", name, "waiting 1: waiting for nodes "+stuck+"; at most 1 nodes may apply the change at once")
		}
	}

	// Its correction continues there.
	most = c.api.MostApplying("net")
	c.api.WantOnNodes("net", spec(1200, ""))
	c.have("a=1200", all...)
	c.is("net", "True Configured, 5 of 5 nodes are ready []")
	if n := most(); n != 1 {
		t.Errorf("%d nodes applied the correction at once", n)
	}

	// A node leaves the selector and comes back.
	c.api.Label("n4", "role", "")
	c.have("", "n4")
	c.shows("net", "n4", "")
	c.is("net", "True Configured, 4 of 4 nodes are ready []")
	c.api.Label("n4", "role", "edge")
	c.have("a=1200", all...)
	c.is("net", "True Configured, 5 of 5 nodes are ready []")

	// A node that is deleted keeps what it has.
	c.api.DeleteNode("n4")
	c.eventually("the health", func() string { return c.nodes["n4"].source.Health().Reason }, "the API server has no node n4; the values of its NodeIntents are kept")
	c.have("a=1200", "n4")
	c.api.HideOnNode("net", "n4")

	c.api.UnwantOnNodes("net")
	c.have("", all...)
	for _, name := range all[:4] {
		c.shows("net", name, "")
	}

	// Created again at once with the same generation, it waits for turns as before.
	c.api.WantOnNodes("net", spec(1400, ""))
	c.have("a=1400", all[:4]...)
	c.is("net", "True Configured, 4 of 4 nodes are ready []")
	c.api.UnwantOnNodes("net")
	c.have("", all[:4]...)
	most = c.api.MostApplying("net")
	c.api.WantOnNodes("net", spec(1250, ""))
	c.have("a=1250", all[:4]...)
	c.is("net", "True Configured, 4 of 4 nodes are ready []")
	if n := most(); n != 1 {
		t.Errorf("%d nodes applied at once what was created again", n)
	}
}

// TestConfirm reverts a change whose probe fails, with other nodes waiting, and keeps one whose probe succeeds.
func TestConfirm(t *testing.T) {
	c := newCluster(t, 3)
	confirm := ", confirm: {timeout: 2s, probes: [tcp:192.0.2.1:1]}"
	c.api.WantOnNodes("net", spec(1400, confirm))
	c.have("a=1400", "n0", "n1", "n2")
	c.is("net", "True Configured, 3 of 3 nodes are ready []")

	for _, n := range c.nodes {
		n.set(func() { n.dead = true })
	}
	c.api.WantOnNodes("net", spec(1300, confirm))
	c.eventually("the rollout", func() string {
		is := c.api.NodeIntent("net")
		return is[:strings.Index(is+";", ";")]
	}, "False Reverted, 0 of 3 nodes are ready")
	reverted := strings.Join(c.api.Applying("net"), " ")
	c.shows("net", reverted, "reverted 1: it did not work until …")
	if is := c.api.NodeIntentState("net", reverted); !strings.HasSuffix(is, "the probe tcp:192.0.2.1:1 failed: no answer") {
		t.Errorf("the reason is %q", is)
	}
	c.have("a=1400", "n0", "n1", "n2")

	// The agent of that node restarts, and does not try again.
	c.nodes[reverted].stop()
	c.nodes[reverted].set(func() { clear(c.nodes[reverted].links) })
	c.start(reverted)
	c.have("a=1400", reverted)
	c.shows("net", reverted, "reverted 1: it did not work until …")

	for _, n := range c.nodes {
		n.set(func() { n.dead = false })
	}
	c.api.WantOnNodes("net", spec(1200, confirm))
	c.have("a=1200", "n0", "n1", "n2")
	c.is("net", "True Configured, 3 of 3 nodes are ready []")
}

// TestCutOff reverts a change on a node that cannot reach the API server afterwards, also if its agent restarts while the
// change is tried.
func TestCutOff(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes["n0"]
	c.api.WantOnNodes("net", spec(1400, ", confirm: {timeout: 8s}"))
	c.have("a=1400", "n0")
	c.is("net", "True Configured, 1 of 1 nodes are ready []")

	for _, restarts := range []bool{false, true} {
		n.set(func() { n.dead = true })
		c.api.WantOnNodes("net", spec(1300, ", confirm: {timeout: 8s, probes: [key:x]}"))
		c.have("a=1300", "n0")
		n.proxy.Cut()
		n.set(func() { n.dead = false })
		if restarts {
			n.stop()
			n.set(func() { clear(n.links) })
			c.start("n0")
			c.have("a=1300", "n0")
		}
		c.have("a=1400", "n0")
		n.proxy.Mend()
		c.shows("net", "n0", "reverted …")
		c.api.WantOnNodes("net", spec(1400, ", confirm: {timeout: 8s}"))
		c.is("net", "True Configured, 1 of 1 nodes are ready []")
	}
}

// TestTwoForOneKey gives a key to the older of two NodeIntents, and then to the newer.
func TestTwoForOneKey(t *testing.T) {
	c := newCluster(t, 1)
	c.api.WantOnNodes("z-first", "{intent: {interface/a: {dummy: {}, mtu: 1400}}}")
	c.have("a=1400", "n0")
	time.Sleep(time.Second) // the API server counts ages in seconds
	c.api.WantOnNodes("a-second", "{intent: {interface/a: {dummy: {}, mtu: 1300}, interface/b: {dummy: {}, mtu: 1300}}}")
	c.have("a=1400 b=1300", "n0")
	c.shows("a-second", "n0", "failed 1: interface/a: the older NodeIntent z-first has this key too and overrides it; remove the key from one of the two")
	c.api.UnwantOnNodes("z-first")
	c.have("a=1300 b=1300", "n0")
	c.is("a-second", "True Configured, 1 of 1 nodes are ready []")
}

// TestUnreadable keeps the values of a NodeIntent that has become unreadable.
func TestUnreadable(t *testing.T) {
	c := newCluster(t, 1)
	c.api.WantOnNodes("net", "{intent: {interface/a: {dummy: {}, mtu: 1400}}}")
	c.have("a=1400", "n0")
	for _, one := range []struct{ intent, want string }{
		{"nosuch/a: {}", `failed 1: spec.intent: the key "nosuch/a": …`},
		{"interface/pod.a: {dummy: {}}", `failed 1: spec.intent: the key "interface/pod.a": names that begin with "pod." are reserved for pods; use another name`},
	} {
		c.api.WantOnNodes("net", "{intent: {"+one.intent+"}}")
		c.shows("net", "n0", one.want)
		c.have("a=1400", "n0")
	}
	if is := c.nodes["n0"].source.Health(); is.State != "ok" || !strings.HasPrefix(is.Reason, "the NodeIntent net cannot be read: ") {
		t.Errorf("the health is %s, %s", is.State, is.Reason)
	}
	c.api.WantOnNodes("net", "{intent: {interface/a: {dummy: {}, mtu: 1300}}}")
	c.have("a=1300", "n0")
}

// TestLost loses the CRD, and a node its agent and its copy.
func TestLost(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes["n0"]
	c.api.WantOnNodes("net", spec(1400, ""))
	c.have("a=1400", "n0")
	c.is("net", "True Configured, 1 of 1 nodes are ready []")

	// Without the copy. It needs no turn for what it has shown as ready.
	n.stop()
	n.set(func() { clear(n.links) })
	n.file = filepath.Join(t.TempDir(), "another.json")
	c.start("n0")
	c.have("a=1400", "n0")

	// Without the node object: an empty selector still selects it.
	c.api.WantOnNodes("all", "{nodeSelector: {matchLabels: {}}, intent: {interface/b: {dummy: {}, mtu: 1300}}}")
	c.have("a=1400 b=1300", "n0")
	c.is("all", "True Configured, 1 of 1 nodes are ready []")
	c.api.DeleteNode("n0")
	c.eventually("the health", func() string { return n.source.Health().Reason }, "the API server has no node n0; …")
	n.stop()
	c.start("n0")
	c.eventually("the health", func() string { return n.source.Health().Reason }, "the API server has no node n0; …")
	c.have("a=1400 b=1300", "n0")
	c.api.CreateNode("n0", "role=edge")
	c.eventually("the health", func() string { return n.source.Health().State }, "ok")
	c.api.UnwantOnNodes("all")
	c.have("a=1400", "n0")

	c.api.DropNodeIntents()
	c.eventually("the health", func() string { return n.source.Health().State }, "degraded")
	c.have("a=1400", "n0")
	n.source.Accept()
	c.have("", "n0")
}

// TestValidation: the API server refuses NodeIntents that have a wrong field, and names it.
func TestValidation(t *testing.T) {
	s := kubetest.Start(t)
	api := s.Client(kubetest.Admin)
	api.ServeNodeIntents()
	for _, one := range []struct{ name, spec, want string }{
		{"a", "{}", ""},
		{"a", "{maxUnavailable: 3, confirm: {timeout: 90s}}", ""},
		{"a", "{maxUnavailable: 25%, confirm: {}, nodeSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}}", ""},
		{strings.Repeat("a", 64), "{}", "at most 63 characters"},
		{"a.b", "{}", "no dot"},
		{"a", "{maxUnavailable: 0}", "spec.maxUnavailable"},
		{"a", "{maxUnavailable: 0%}", "spec.maxUnavailable"},
		{"a", "{maxUnavailable: 101%}", "spec.maxUnavailable"},
		{"a", "{maxUnavailable: many}", "spec.maxUnavailable"},
		{"a", "{confirm: {timeout: 0s}}", "spec.confirm.timeout"},
		{"a", "{confirm: {timeout: soon}}", "spec.confirm.timeout"},
		{"a", "{nodeSelector: {matchExpressions: [{key: a, operator: In}]}}", "spec.nodeSelector.matchExpressions"},
		{"a", "{nodeSelector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}", "spec.nodeSelector.matchExpressions"},
		{"a", "{intent: {interface/a: 7}}", "spec.intent.interface/a"},
	} {
		switch err := api.TryWantOnNodes(one.name, one.spec); {
		case one.want == "" && err != nil:
			t.Errorf("%s: %v", one.spec, err)
		case one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)):
			t.Errorf("%s: %v, want an error of %s", one.spec, err, one.want)
		}
	}
}
