package cni

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// theirs are the plugins of others, from Debian.
const theirs = "/usr/lib/cni"

// link is a plugin of others in a chain after ours, and what it is known by.
type link struct {
	plugin, config string
	// works says what is missing, once the chain is complete.
	works func(n *node, inside *netlinktest.Namespace) error
}

// chain is plumb-cni with the plugins that people put after it.
var chain = []link{
	{"tuning", `{"type": "tuning", "sysctl": {"net.ipv4.conf.eth0.proxy_arp": "1"}, "mac": "02:16:16:16:16:16", "mtu": 1380, "promisc": true}`, func(n *node, inside *netlinktest.Namespace) error {
		n.host.MustCtl("resync") // what the agent does at the first look after ADD, and after each event
		return errors.Join(
			says(inside, "1", "cat", "/proc/sys/net/ipv4/conf/eth0/proxy_arp"),
			says(inside, "02:16:16:16:16:16", "ip", "link", "show", "eth0"), says(inside, "mtu 1380", "ip", "link", "show", "eth0"),
			says(inside, "promiscuity 1", "ip", "-d", "link", "show", "eth0"))
	}},
	{"portmap", `{"type": "portmap", "capabilities": {"portMappings": true}}`, func(n *node, inside *netlinktest.Namespace) error {
		server := exec.Command("nsenter", "--net="+inside.Path, "--", "busybox", "nc", "-ll", "-p", "80", "-e", "echo", "served")
		if err := server.Start(); err != nil {
			return err
		}
		defer func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		}()
		return says(n.host.Own, "served", "sh", "-c", "for i in $(seq 100); do busybox nc -w 5 "+gateway+" 8080 </dev/null && break; sleep 0.1; done")
	}},
	{"bandwidth", `{"type": "bandwidth", "capabilities": {"bandwidth": true}}`, func(n *node, _ *netlinktest.Namespace) error {
		return says(n.host.Own, "tbf", "tc", "qdisc", "show")
	}},
}

// asked is what a runtime adds for the plugins that can do it.
const asked = `CAP_ARGS={"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}],
	"bandwidth": {"ingressRate": 80000000, "ingressBurst": 800000, "egressRate": 80000000, "egressBurst": 800000}}`

func says(ns *netlinktest.Namespace, word string, command ...string) error {
	if out, err := ns.Try(command...); err != nil || !strings.Contains(out, word) {
		return fmt.Errorf("%v does not say %q: %v\n%s", command, word, err, out)
	}
	return nil
}

// TestChain: tuning, portmap and bandwidth do their work after plumb-cni, CHECK
// agrees with what they have changed, and DEL leaves nothing.
func TestChain(t *testing.T) {
	n := newNode(t, host.Options{})
	n.host.Start()
	before := n.leftByChain()
	ns, call := n.chained()
	for _, command := range []string{"add", "check"} {
		if out, err := call(command); err != nil {
			t.Fatal(command, err, out)
		}
	}
	if err := ping(ns.Path); err != nil {
		t.Error(err)
	}
	// The address and the routes of the container are repaired none the less.
	ns.Run(t, "ip", "addr", "flush", "dev", "eth0")
	n.host.Eventually("the address is there again", func() error { return ping(ns.Path) })
	for _, l := range chain {
		if err := l.works(n, ns); err != nil {
			t.Errorf("%s: %v", l.plugin, err)
		}
	}
	if out, err := call("del"); err != nil {
		t.Error(err, out)
	}
	n.sameAs(before, "after DEL")
}

// TestChainBreaks: each plugin after ours refuses its ADD. The runtime calls DEL,
// and nothing is left; nor is it if ours refuses, which then is the first.
func TestChainBreaks(t *testing.T) {
	n := newNode(t, host.Options{})
	n.host.Start()
	before := n.leftByChain()
	for _, broken := range append([]link{{plugin: "plumb-cni"}}, chain...) {
		t.Run(broken.plugin, func(t *testing.T) {
			at := *n
			at.t, at.host = t, n.host.With(t)
			dir := t.TempDir()
			script := fmt.Sprintf("#!/bin/sh\n[ $CNI_COMMAND != ADD ] && exec %s/%s\necho '{\"code\": 11, \"msg\": \"it is broken\"}'; exit 1\n", theirs, broken.plugin)
			if broken.plugin == "plumb-cni" {
				script = strings.Replace(script, theirs, at.Plugins(), 1)
			}
			if err := os.WriteFile(filepath.Join(dir, broken.plugin), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			_, call := at.chained(dir)
			if out, err := call("add"); err == nil || !strings.Contains(out, "it is broken") {
				t.Error(err, out)
			}
			if out, err := call("del"); err != nil {
				t.Error(err, out)
			}
			at.sameAs(before, "after "+broken.plugin+" was broken")
		})
	}
}

// chained is a container's namespace, and what a runtime calls for it: ours and all that
// follow, from the directories before those where they are.
func (n *node) chained(dirs ...string) (ns *netlinktest.Namespace, call func(command string) (string, error)) {
	n.t.Helper()
	if _, err := os.Stat(theirs + "/portmap"); err != nil && os.Getenv("CI") != "true" {
		n.t.Skip(err)
	}
	tool, dir := cnitool(n.t), n.t.TempDir()
	all, checkable := []string{n.plugin("cni.sock")}, []string{n.plugin("cni.sock")}
	for _, l := range chain {
		all = append(all, l.config)
		if l.plugin != "portmap" { // its CHECK looks for rules of one family among those of the other
			checkable = append(checkable, l.config)
		}
	}
	for use, plugins := range map[string][]string{"all": all, "check": checkable} {
		if err := os.MkdirAll(filepath.Join(dir, use), 0o755); err != nil {
			n.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, use, "10.conflist"), []byte(n.conflist("1.0.0", plugins...)), 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
	ns = netlinktest.Mount(n.t, filepath.Join(dir, "netns"))
	path := strings.Join(append(dirs, n.Plugins(), theirs), ":")
	return ns, func(command string) (string, error) {
		use := filepath.Join(dir, "all")
		if command == "check" {
			use = filepath.Join(dir, "check")
		}
		return n.run([]string{"NETCONFPATH=" + use, "CNI_PATH=" + path, asked}, tool, command, n.Network(), ns.Path)
	}
}

// leftByChain is what a whole chain leaves that came and went: portmap keeps the chains of
// iptables that it has for all containers.
func (n *node) leftByChain() string {
	n.t.Helper()
	_, call := n.chained()
	for _, command := range []string{"add", "del"} {
		if out, err := call(command); err != nil {
			n.t.Fatal(command, err, out)
		}
	}
	return n.left()
}
