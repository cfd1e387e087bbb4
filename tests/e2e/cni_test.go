package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

const blue = `{"cniVersion":"1.0.0","name":"blue","type":"plumb-cni","pool":"10.62.0.0/24"}`

// call is one of plumb-cni for eth0 of a container on the network blue.
func call(h *host.Host, command, container, config string) host.Result {
	return h.CNI(host.CNICall{Command: command, Container: container, IfName: "eth0", Netns: filepath.Join(h.NetnsDir(), container), Config: config})
}

// attached is the result of an ADD.
type attached struct {
	text string
	IPs  []struct{ Address, Gateway string }
}

func add(t *testing.T, h *host.Host, container, config string) (a attached) {
	t.Helper()
	r := call(h, "ADD", container, config)
	if r.Code != 0 {
		t.Fatalf("ADD %s: exit %d\n%s%s", container, r.Code, r.Out, r.Err)
	}
	a.text = r.Out
	if err := json.Unmarshal([]byte(r.Out), &a); err != nil || len(a.IPs) != 1 {
		t.Fatalf("ADD %s: %v\n%s", container, err, r.Out)
	}
	return a
}

// withResult is a configuration as a runtime makes it for CHECK and DEL.
func withResult(config string, a attached) string {
	return strings.Replace(config, "{", fmt.Sprintf(`{"prevResult":%s,`, a.text), 1)
}

// ping sends one packet, at once and only once.
func ping(ns *netlinktest.Namespace, to string) error {
	if out, err := exec.Command("nsenter", "--net="+ns.Path, "--", "busybox", "ping", "-c", "1", "-W", "1", to).CombinedOutput(); err != nil {
		return fmt.Errorf("%s is not reached: %w\n%s", to, err, out)
	}
	return nil
}

// TestRow50_CNIFromOneConflist: a network from nothing but its configuration. What
// ADD gives works at the instant at which it returns; the last DEL leaves nothing.
func TestRow50_CNIFromOneConflist(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	c1, c2 := h.Mount("c1"), h.Mount("c2")
	before := h.Exact()
	h.Start()
	a := add(t, h, "c1", blue)
	if err := ping(c1, a.IPs[0].Gateway); err != nil {
		t.Error(err)
	}
	if r := call(h, "CHECK", "c1", withResult(blue, a)); r.Code != 0 {
		t.Errorf("CHECK: %s%s", r.Out, r.Err)
	}
	if r := call(h, "ADD", "c1", blue); r.Code != 1 || !strings.Contains(r.Out, `"code": 101`) {
		t.Errorf("a second ADD: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	add(t, h, "c2", blue)
	if err := ping(c2, strings.TrimSuffix(a.IPs[0].Address, "/24")); err != nil {
		t.Error(err)
	}
	for _, container := range []string{"c1", "c1", "c2", "c2"} {
		if r := call(h, "DEL", container, blue); r.Code != 0 || r.Out != "" {
			t.Errorf("DEL %s: exit %d\n%s%s", container, r.Code, r.Out, r.Err)
		}
	}
	for _, ns := range []*netlinktest.Namespace{c1, c2} {
		if names := ns.Names(t); len(names) > 0 {
			t.Errorf("left in the container: %v", names)
		}
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("left:\n%s", diff)
	}
	if keys := h.Keys("ippool", "ipclaim", "interface", "route"); len(keys) > 0 {
		t.Errorf("left: %v", keys)
	}
}

// TestRow55_AgentKilledBetween: an agent that is killed between ADD and DEL changes
// nothing of what is attached, and knows it again.
func TestRow55_AgentKilledBetween(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	c1, c2 := h.Mount("c1"), h.Mount("c2")
	before := h.Exact()
	h.Start()
	a := add(t, h, "c1", blue)
	attached, inside := h.Exact(), c1.IP(t, "addr")
	h.Kill9()
	if err := ping(c1, a.IPs[0].Gateway); err != nil {
		t.Error(err)
	}
	h.Start()
	h.AwaitSettled()
	if n := h.KernelWrites(); n != 0 {
		t.Errorf("%d kernel writes after the restart:\n%s", n, h.Done())
	}
	if diff := host.Diff(attached, h.Exact()); diff != "" || c1.IP(t, "addr") != inside {
		t.Errorf("the restart changed something:\n%s\n%s\n%s", diff, inside, c1.IP(t, "addr"))
	}
	if r := call(h, "CHECK", "c1", withResult(blue, a)); r.Code != 0 {
		t.Errorf("CHECK: %s%s", r.Out, r.Err)
	}
	if b := add(t, h, "c2", blue); b.IPs[0].Address == a.IPs[0].Address {
		t.Errorf("%s is given twice", b.IPs[0].Address)
	} else if err := ping(c2, a.IPs[0].Gateway); err != nil {
		t.Error(err)
	}
	for _, container := range []string{"c1", "c2"} {
		if r := call(h, "DEL", container, blue); r.Code != 0 {
			t.Errorf("DEL %s: exit %d\n%s%s", container, r.Code, r.Out, r.Err)
		}
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("left:\n%s", diff)
	}
}

// TestRow56_AgentDownDuringDELs: while the agent is down containers can be deleted;
// when it is back nothing of them is left before anybody can ask.
func TestRow56_AgentDownDuringDELs(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	c1 := h.Mount("c1")
	h.Mount("c2")
	before := h.Exact()
	h.Start()
	add(t, h, "c1", blue)
	add(t, h, "c2", blue)
	h.Kill9()
	for _, container := range []string{"c1", "c2"} {
		if r := call(h, "DEL", container, blue); r.Code != 0 {
			t.Errorf("DEL %s: exit %d\n%s%s", container, r.Code, r.Out, r.Err)
		}
	}
	if names := c1.Names(t); len(names) > 0 {
		t.Errorf("left in the container: %v", names)
	}
	if r := call(h, "ADD", "c1", blue); r.Code != 1 || !strings.Contains(r.Out, `"code": 11`) {
		t.Errorf("ADD: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	h.Start()
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("left:\n%s", diff)
	}
}
