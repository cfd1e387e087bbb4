package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// Networks of the pods.
const (
	// green gives pods what their annotations want.
	green = `{"cniVersion":"1.0.0","name":"green","type":"plumb-cni","mode":"intent"}`
	// blue gives pods an address of a pool.
	blue = `{"cniVersion":"1.0.0","name":"blue","type":"plumb-cni","pool":"10.62.0.0/24"}`
)

// node is a node of a cluster: an API server, an agent, and a proxy between the two.
type node struct {
	*host.Host
	t      *testing.T
	server *kubetest.Server
	api    *kubetest.Client
	proxy  *etcdtest.Proxy
}

// newNode returns a node whose agent has the identity of the node.
func newNode(t *testing.T) *node {
	t.Helper()
	return newNodeOf(t, kubetest.Node("n0"))
}

// newNodeOf returns a node whose agent is a user of the API server.
func newNodeOf(t *testing.T, user string) *node {
	t.Helper()
	s := kubetest.Start(t)
	n := &node{t: t, server: s, api: s.Client(kubetest.Admin), proxy: etcdtest.StartProxy(t, s.Addr())}
	kubeconfig := s.Kubeconfig(user, strings.TrimPrefix(n.proxy.URL(), "http://"))
	n.Host = host.New(t, host.Options{NoEngine: true, Args: []string{"--kubeconfig", kubeconfig, "--kubernetes-node", "n0"}})
	return n
}

// pod creates a pod that wants the values of a text.
func (n *node) pod(name, intent string) (uid string) {
	n.t.Helper()
	p := kubetest.Pod{Namespace: "default", Name: name, Node: "n0"}
	if intent != "" {
		p.Annotations = map[string]string{"plumb.net/intent": intent}
	}
	return n.api.Create(p)
}

// want changes what a pod wants.
func (n *node) want(name, intent string) {
	n.t.Helper()
	n.api.Annotate("default", name, "plumb.net/intent", intent)
}

// saves waits until the agent has written a copy of the pods that contains a text.
func (n *node) saves(text string) {
	n.t.Helper()
	n.Eventually("the copy of the pods has "+text, func() error {
		data, err := os.ReadFile(filepath.Join(n.StateDir(), "pods.json"))
		if err == nil && !strings.Contains(string(data), text) {
			err = errors.New("it has not")
		}
		return err
	})
}

// sandbox is a sandbox of a pod, as a runtime knows it.
type sandbox struct {
	*netlinktest.Namespace
	node           *node
	id, pod, uid   string
	network, iface string
}

// sandbox makes the network namespace of a sandbox.
func (n *node) sandbox(id, pod, uid, network string) *sandbox {
	n.t.Helper()
	return &sandbox{Namespace: n.Mount(id), node: n, id: id, pod: pod, uid: uid, network: network, iface: "eth0"}
}

func (s *sandbox) call(command string) host.Result {
	s.node.t.Helper()
	return s.node.CNI(host.CNICall{
		Command: command, Container: s.id, IfName: s.iface, Netns: filepath.Join(s.node.NetnsDir(), s.id), Config: s.network,
		Env: []string{fmt.Sprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=%s;K8S_POD_INFRA_CONTAINER_ID=%s;K8S_POD_UID=%s", s.pod, s.id, s.uid)},
	})
}

// add attaches the sandbox and returns its addresses.
func (s *sandbox) add() (addresses []string) {
	s.node.t.Helper()
	r := s.call("ADD")
	if r.Code != 0 {
		s.node.t.Fatalf("ADD %s: exit %d\n%s%s", s.id, r.Code, r.Out, r.Err)
	}
	var result struct{ IPs []struct{ Address string } }
	if err := json.Unmarshal([]byte(r.Out), &result); err != nil {
		s.node.t.Fatal(err)
	}
	for _, ip := range result.IPs {
		addresses = append(addresses, ip.Address)
	}
	return addresses
}

// del detaches the sandbox.
func (s *sandbox) del() {
	s.node.t.Helper()
	if r := s.call("DEL"); r.Code != 0 {
		s.node.t.Errorf("DEL %s: exit %d\n%s%s", s.id, r.Code, r.Out, r.Err)
	}
}

// waits blocks until an ADD of the sandbox waits for values.
func (s *sandbox) waits() {
	s.node.t.Helper()
	s.node.Eventually("the ADD waits", func() error {
		if list := s.node.MustCtl("cni"); !strings.Contains(list, "which is not in the intent") || !strings.Contains(list, s.id+" ") {
			return fmt.Errorf("%s", list)
		}
		return nil
	})
}

// links returns the sorted names of the links in the sandbox without the loopback and the far end of eth0.
func (s *sandbox) links() string {
	s.node.t.Helper()
	names := slices.DeleteFunc(s.Names(s.node.t), func(name string) bool { return name == "far" })
	return strings.Join(slices.Sorted(slices.Values(names)), " ")
}
