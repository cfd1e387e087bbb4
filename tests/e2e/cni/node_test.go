package cni

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/containerd/containerdtest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// gateway is what the pods of all tests have as theirs: the first address of the pool.
const (
	pool    = "10.90.0.0/16"
	gateway = "10.90.0.1"
)

// node is a machine that runs pods: containerd and an agent in one network
// namespace. The agent does not run yet.
type node struct {
	*containerdtest.Engine
	host *host.Host
	t    testing.TB
}

func newNode(t testing.TB, o host.Options) *node {
	t.Helper()
	c := containerdtest.Start(t)
	c.AddPlugin(host.Program(t, "plumb-cni"))
	o.NoEngine, o.Namespace, o.Args = true, c.NetnsPath(), append(o.Args, "--containerd", c.Socket)
	n := &node{Engine: c, host: host.New(t, o), t: t}
	n.network(n.plugin("cni.sock"))
	return n
}

// socket is a socket in the run directory of the agent.
func (n *node) socket(name string) string { return filepath.Join(n.host.RunDir(), name) }

// plugin is plumb-cni in a network configuration, asking at a socket of the run
// directory, with further fields.
func (n *node) plugin(socket string, fields ...string) string {
	all := append([]string{`"type": "plumb-cni"`, fmt.Sprintf(`"socket": %q`, n.socket(socket)), fmt.Sprintf(`"pool": %q`, pool)}, fields...)
	return "{" + strings.Join(all, ", ") + "}"
}

// network takes other plugins for the network of the pods.
func (n *node) network(plugins ...string) {
	n.t.Helper()
	n.SetNetwork(n.conflist("0.4.0", plugins...))
}

func (n *node) conflist(version string, plugins ...string) string {
	return fmt.Sprintf(`{"cniVersion": %q, "name": %q, "plugins": [%s]}`, version, n.Network(), strings.Join(plugins, ", "))
}

// run runs a command in the network namespace of the node.
func (n *node) run(env []string, command ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--net=" + n.NetnsPath(), "--"}, command...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return string(out), err
}

// inside are the namespaces of the pods that containerd has.
func (n *node) inside() []string {
	n.t.Helper()
	all, err := filepath.Glob(filepath.Join(n.Dir, "state/*/netns/*"))
	if err != nil {
		n.t.Fatal(err)
	}
	return all
}

// ping pings the gateway once from within a namespace.
func ping(namespace string) error {
	ns := netlinktest.Namespace{Path: namespace}
	if out, err := ns.Try("busybox", "ping", "-c", "1", "-W", "1", gateway); err != nil {
		return fmt.Errorf("the gateway does not answer: %w\n%s", err, out)
	}
	return nil
}

// left is all that attachments can leave behind: links, addresses, routes and rules of
// the node, namespaces, files of plugins and runtimes, and what the agent knows.
func (n *node) left() string {
	n.t.Helper()
	var b strings.Builder
	b.WriteString(n.host.Exact())
	if rules, err := n.run(nil, "iptables-save"); err != nil {
		n.t.Fatal(err)
	} else {
		fmt.Fprintf(&b, "iptables: %q\n", counters.ReplaceAllString(rules, ""))
	}
	for _, pattern := range []string{
		n.Dir + "/state/*/netns/*", n.Dir + "/addresses/*/*.*.*.*", n.host.RunDir() + "/cni-queue/*",
		"/run/netns/*", "/var/lib/cni/results/" + n.Network() + "-*", "/var/lib/cni/*/" + n.Network() + "*",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			n.t.Fatal(err)
		}
		for _, f := range files {
			fmt.Fprintln(&b, "file", f)
		}
	}
	if n.host.Running() {
		for _, k := range n.host.Keys() {
			fmt.Fprintln(&b, k.Key, k.State)
		}
	}
	return b.String()
}

// counters are what iptables-save tells of the moment.
var counters = regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\]`)

// sameAs fails unless nothing has been left since a picture was taken. What goes by itself
// may take a moment.
func (n *node) sameAs(before, when string) {
	n.t.Helper()
	n.host.Within(host.Patience, when+" nothing is left", func() error {
		if diff := host.Diff(before, n.left()); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// cached is the path of a file in the cache of the user.
func cached(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "plumb"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "plumb", name)
}

// need ends a test that needs a program which is not here: in CI as failed.
func need(t testing.TB, program, debian string) {
	t.Helper()
	if _, err := exec.LookPath(program); !errors.Is(err, exec.ErrNotFound) {
		return
	}
	text := program + " is missing: apt-get install " + debian
	if os.Getenv("CI") == "true" {
		t.Fatal(text)
	}
	t.Skip(text)
}

// cnitool is the path of the tool of the CNI project. It is built once for a user.
func cnitool(t testing.TB) string {
	t.Helper()
	const version = "v1.3.1"
	path := cached(t, "cnitool-"+version)
	if _, err := os.Stat(path); err == nil {
		return path
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "install", "github.com/containernetworking/cni/cnitool@"+version)
	build.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	out, err := build.CombinedOutput()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("cnitool cannot be built: %v\n%s", err, out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Rename(filepath.Join(dir, "cnitool"), path); err != nil {
		t.Fatal(err)
	}
	return path
}
