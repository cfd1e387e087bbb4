package cni

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/containerd/containerdtest"
	"github.com/plumb-net/plumb/plugins/cri/critest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestClients: the programs that call CNI plugins, one after the other on one
// node. Each has a container that reaches its gateway, and leaves nothing.
func TestClients(t *testing.T) {
	n := newNode(t, host.Options{})
	n.host.Start()
	before := n.left()
	for _, client := range []struct {
		name string
		play func(n *node)
	}{
		{"containerd", (*node).playCRI}, {"ctr", (*node).playCtr}, {"cnitool", (*node).playCnitool}, {"podman", (*node).playPodman},
	} {
		t.Run(client.name, func(t *testing.T) {
			at := *n
			at.t, at.host = t, n.host.With(t)
			client.play(&at)
			at.sameAs(before, "after "+client.name)
		})
	}
}

// playCRI is what a kubelet does: a sandbox comes and goes.
func (n *node) playCRI() {
	for range 2 { // the second has the name of the first
		sandbox, err := n.RunPod(n.t.Context(), critest.Pod{})
		if err != nil {
			n.t.Fatal(err)
		}
		if all := n.inside(); len(all) != 1 {
			n.t.Errorf("namespaces: %v", all)
		} else if err := ping(all[0]); err != nil {
			n.t.Error(err)
		}
		for range 2 { // the second time there is none
			if err := n.RemovePod(n.t.Context(), sandbox); err != nil && !strings.Contains(err.Error(), "not found") {
				n.t.Error(err)
			}
		}
	}
}

// playCtr runs a container by containerd's own command, which calls plugins itself. It
// has its configuration and its plugins at fixed places.
func (n *node) playCtr() {
	n.Import("default")
	etc, opt := filepath.Join(n.t.TempDir(), "etc"), n.t.TempDir()
	if err := os.MkdirAll(filepath.Join(etc, "cni"), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(n.Dir, "cni"), filepath.Join(etc, "cni/net.d")); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(opt, "cni"), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Symlink(n.Plugins(), filepath.Join(opt, "cni/bin")); err != nil {
		n.t.Fatal(err)
	}
	out, err := n.run(nil, "unshare", "--mount", "sh", "-ec",
		`mount -t overlay overlay -o "lowerdir=$1:/etc" /etc; mount --bind "$2" /opt; shift 2; exec "$@"`, "sh", etc, opt,
		"ctr", "--address", n.Socket, "run", "--rm", "--cni", "--runc-root", filepath.Join(n.Dir, "runc"), "--fifo-dir", filepath.Join(n.Dir, "fifo"),
		containerdtest.Image, "web", "ping", "-c", "1", "-W", "1", gateway)
	if err != nil || !strings.Contains(out, " 0% packet loss") {
		n.t.Errorf("%v\n%s", err, out)
	}
}

// playCnitool calls each command in each version that has it.
func (n *node) playCnitool() {
	tool := cnitool(n.t)
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		dir := n.t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "10.conflist"), []byte(n.conflist(version, n.plugin("cni.sock"))), 0o600); err != nil {
			n.t.Fatal(err)
		}
		ns := netlinktest.Mount(n.t, filepath.Join(dir, "netns"))
		call := func(command string) string {
			n.t.Helper()
			out, err := n.run([]string{"NETCONFPATH=" + dir, "CNI_PATH=" + n.Plugins()}, tool, command, n.Network(), ns.Path)
			if err != nil {
				n.t.Errorf("%s: %v", version, err)
			}
			return out
		}
		if version == "1.1.0" {
			call("status")
		}
		if out := call("add"); !strings.Contains(out, fmt.Sprintf("%q", version)) {
			n.t.Errorf("the result is not of version %s: %s", version, out)
		}
		if err := ping(ns.Path); err != nil {
			n.t.Error(version, err)
		}
		if version != "0.3.1" {
			call("check")
		}
		call("del")
		call("del")
	}
}

// playPodman runs a container as podman does with its cni backend.
func (n *node) playPodman() {
	need(n.t, "podman", "podman")
	dir := n.t.TempDir()
	settings := filepath.Join(dir, "containers.conf")
	text := strings.NewReplacer("DIR", dir, "NETWORK", n.Network(), "NETS", filepath.Join(n.Dir, "cni"), "PLUGINS", n.Plugins()).Replace(podmanConf)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	podman := func(args ...string) string {
		n.t.Helper()
		options := []string{"podman", "--root", dir + "/root", "--runroot", dir + "/run", "--tmpdir", dir + "/tmp"}
		out, err := n.run([]string{"CONTAINERS_CONF=" + settings}, append(options, args...)...)
		if err != nil {
			n.t.Error(err)
		}
		return out
	}
	podman("load", "--input", filepath.Join(n.Dir, "image.tar"))
	out := podman("run", "--rm", "--network", n.Network(), containerdtest.Image, "ping", "-c", "1", "-W", "1", gateway)
	if !strings.Contains(out, " 0% packet loss") {
		n.t.Error(out)
	}
	out = podman("run", "--rm", "--network", n.Network(), "--ip", "10.90.7.7", "--mac-address", "92:d0:c6:0a:29:33", containerdtest.Image, "ip", "address", "show", "eth0")
	if !strings.Contains(out, " 10.90.7.7/16 ") || !strings.Contains(out, "92:d0:c6:0a:29:33") {
		n.t.Errorf("--ip and --mac-address:\n%s", out)
	}
	n.network(n.plugin("cni.sock", `"capabilities": {"portMappings": true}`))
	podman("run", "--detach", "--name", "served", "--network", n.Network(), "--publish", "18080:80", containerdtest.Image, "nc", "-ll", "-p", "80", "-e", "echo", "served")
	n.host.Eventually("the port leads to the container", func() error {
		return says(n.host.Own, "served", "sh", "-c", "busybox nc -w 5 127.0.0.1 18080 </dev/null")
	})
	podman("rm", "--force", "--time", "0", "served")
	n.severalNetworks(podman)
	podman("system", "reset", "--force")
}

// severalNetworks: a container on two networks reaches both gateways; one gives the default
// route. Without the one it still has the other.
func (n *node) severalNetworks(podman func(args ...string) string) {
	second := n.Network() + "-second"
	file := filepath.Join(n.Dir, "cni", "20-second.conflist")
	text := strings.NewReplacer(n.Network(), second, pool, "10.91.0.0/16").Replace(n.conflist("0.4.0", n.plugin("cni.sock")))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	defer os.Remove(file)
	in := func(command ...string) string {
		return podman(append([]string{"exec", "several"}, command...)...)
	}
	reaches := func(gateway string) {
		n.t.Helper()
		if out := in("ping", "-c", "1", "-W", "1", gateway); !strings.Contains(out, " 0% packet loss") {
			n.t.Error(out)
		}
	}
	podman("run", "--detach", "--name", "several", "--network", n.Network()+","+second, containerdtest.Image, "sleep", "1000")
	// podman attaches them in no certain order.
	if routes := in("ip", "route"); strings.Count(routes, "default") != 1 {
		n.t.Errorf("the first network does not give the default route:\n%s", routes)
	}
	reaches(gateway)
	reaches("10.91.0.1")
	podman("network", "disconnect", n.Network(), "several")
	if routes := in("ip", "route"); strings.Contains(routes, gateway) {
		n.t.Errorf("of the first network is left:\n%s", routes)
	}
	reaches("10.91.0.1")
	podman("network", "connect", n.Network(), "several")
	if routes := in("ip", "route"); strings.Count(routes, "default") != 1 {
		n.t.Errorf("connected again:\n%s", routes)
	}
	reaches(gateway)
	podman("rm", "--force", "--time", "0", "several")
}

// podmanConf: without CAP_SYS_RESOURCE no limit can be raised.
const podmanConf = `
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
static_dir = "DIR/static"
volume_path = "DIR/volumes"
[network]
network_backend = "cni"
network_config_dir = "NETS"
cni_plugin_dirs = ["PLUGINS"]
default_network = "NETWORK"
`
