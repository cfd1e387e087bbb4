package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestCNIFromOneConflist: a network from nothing but its configuration. What
// ADD gives works at the instant at which it returns; the last DEL leaves nothing.
func TestCNIFromOneConflist(t *testing.T) {
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

// TestAgentKilledBetween: an agent that is killed between ADD and DEL changes
// nothing of what is attached, and knows it again.
func TestAgentKilledBetween(t *testing.T) {
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

// TestAgentDownDuringDELs: while the agent is down containers can be deleted;
// when it is back nothing of them is left before anybody can ask.
func TestAgentDownDuringDELs(t *testing.T) {
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

// TestAnotherNamespaceAtThePath: while the agent is down a path is given to
// another namespace. Nothing is put into it, and the attachment is removed.
func TestAnotherNamespaceAtThePath(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Mount("c1")
	before := h.Own.Names(t)
	h.Start()
	add(t, h, "c1", blue)
	h.Kill9()
	h.Unmount("c1")
	stranger := h.Mount("c1")
	h.Start()
	h.Eventually("nothing is left on the host", func() error {
		if names := h.Own.Names(t); !slices.Equal(names, before) {
			return fmt.Errorf("%v", names)
		}
		return nil
	})
	if names := stranger.Names(t); len(names) > 0 {
		t.Errorf("in the stranger's namespace there are %v", names)
	}
	h.Eventually("it is not attached any more", func() error {
		if out := h.MustCtl("cni", "-o", "json"); strings.Contains(out, "c1") {
			return errors.New(out)
		}
		return nil
	})
	// The same while the agent runs: the cable is not made again in another's.
	add(t, h, "c1", blue)
	h.Unmount("c1")
	stranger = h.Mount("c1")
	h.Eventually("the interface waits for its own namespace", func() error {
		for _, k := range h.Keys("interface") {
			if k.State == "pending" && strings.Contains(k.Text(), "is another now") {
				return nil
			}
		}
		return errors.New(h.MustCtl("get"))
	})
	if names := stranger.Names(t); len(names) > 0 {
		t.Errorf("in the stranger's namespace there are %v", names)
	}
	if r := call(h, "DEL", "c1", blue); r.Code != 0 {
		t.Errorf("DEL: %s%s", r.Out, r.Err)
	}
	if names := h.Own.Names(t); !slices.Equal(names, before) {
		t.Errorf("left on the host: %v", names)
	}
}

// TestHostNamespace: neither the plugin nor the agent touches the host's own.
func TestHostNamespace(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Start()
	before := h.Exact()
	for _, path := range []string{h.Own.Path, "/proc/1/ns/net", "/etc/passwd", filepath.Join(h.Dir, "nothing")} {
		r := h.CNI(host.CNICall{Command: "ADD", Container: "c1", IfName: "eth0", Netns: path, Config: blue})
		if r.Code != 1 || !strings.Contains(r.Out, `"code": 100`) {
			t.Errorf("%s: exit %d\n%s%s", path, r.Code, r.Out, r.Err)
		}
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// byIntent is a network whose ADD waits until an operator wants an interface in the container.
const byIntent = `{"cniVersion":"1.0.0","name":"red","type":"plumb-cni","mode":"intent"}`

// TestNamespaceGoneWhileWaiting: an ADD that waits for intent ends as soon as its
// namespace does; agentctl tells what it waits for. One for which a pool has none at all
// does not wait.
func TestNamespaceGoneWhileWaiting(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Mount("c1")
	h.Mount("c2")
	h.Start()
	small := strings.Replace(blue, "10.62.0.0/24", "10.62.0.0/30", 1)
	add(t, h, "c1", small)
	if r := call(h, "STATUS", "", strings.Replace(small, "1.0.0", "1.1.0", 1)); r.Code != 1 || !strings.Contains(r.Out, `"code": 50`) {
		t.Errorf("STATUS of a full pool: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if r := call(h, "ADD", "c2", small); r.Code != 1 || !strings.Contains(r.Out, `"code": 11`) || !strings.Contains(r.Out, "has no free address") {
		t.Errorf("ADD of a full pool: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	answer := make(chan host.Result, 1)
	go func() { answer <- call(h, "ADD", "c2", byIntent) }()
	h.Eventually("the ADD waits", func() error {
		if out := h.MustCtl("cni"); !strings.Contains(out, "an interface called eth0 in the pod c2") {
			return errors.New(out)
		}
		return nil
	})
	h.Unmount("c2")
	select {
	case r := <-answer:
		if r.Code != 1 || !strings.Contains(r.Out, "the container has gone") {
			t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
		}
	case <-time.After(host.StopLimit):
		t.Error("it still waits")
		<-answer
	}
	if page, err := h.HTTP("/metrics"); err != nil || !strings.Contains(page, `plumb_cni_seconds_count{code="100",command="ADD"} 1`) {
		t.Errorf("the metrics do not tell: %v", err)
	}
	call(h, "DEL", "c1", small)
}

// TestSocketCannotBeServed: the agent runs, is not ready and says why; when it
// can, it serves.
func TestSocketCannotBeServed(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	blocked := filepath.Join(h.RunDir(), "cni.sock.lock")
	for _, dir := range []string{h.RunDir(), blocked} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// By which the agent knows the directory as its own.
	if err := os.WriteFile(filepath.Join(h.RunDir(), "agent.sock.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.Launch()
	h.Eventually("the agent says why it is not ready", func() error {
		if _, err := h.HTTP("/readyz"); err == nil || !strings.Contains(err.Error(), "cni.sock") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	h.AwaitReady()
}

// TestGC: with the real plugin: what the runtime does not know is removed.
func TestGC(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	c1, c2 := h.Mount("c1"), h.Mount("c2")
	h.Start()
	latest := strings.Replace(blue, "1.0.0", "1.1.0", 1)
	add(t, h, "c1", latest)
	b := add(t, h, "c2", latest)
	time.Sleep(time.Second) // what is younger than the call is kept; its clock is that of the record
	if r := call(h, "GC", "", latest); r.Code != 1 || !strings.Contains(r.Out, `"code": 7`) {
		t.Errorf("without the key: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	valid := strings.Replace(latest, "{", `{"cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth0"}],`, 1)
	if r := call(h, "GC", "", valid); r.Code != 0 || r.Out != "" {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if names := c1.Names(t); len(names) > 0 {
		t.Errorf("left in c1: %v", names)
	}
	if err := ping(c2, b.IPs[0].Gateway); err != nil {
		t.Error(err)
	}
	if r := call(h, "DEL", "c2", latest); r.Code != 0 {
		t.Errorf("DEL: %s%s", r.Out, r.Err)
	}
}

// TestStopWhileAddWaits: the agent stops within its limit although an ADD waits;
// who called is told to try again, and nothing of it is left.
func TestStopWhileAddWaits(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Mount("c1")
	c2 := h.Mount("c2")
	h.Start()
	small := strings.Replace(blue, "10.62.0.0/24", "10.62.0.0/30", 1)
	add(t, h, "c1", small)
	before := h.Exact()
	answer := make(chan host.Result, 1)
	go func() { answer <- call(h, "ADD", "c2", byIntent) }()
	h.Eventually("the ADD waits", func() error {
		if out := h.MustCtl("cni"); !strings.Contains(out, "adding") {
			return errors.New(out)
		}
		return nil
	})
	t.Logf("it stops in %v", h.Stop())
	if r := <-answer; r.Code != 1 || !strings.Contains(r.Out, `"code": 11`) {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if diff := host.Diff(before, h.Exact()); diff != "" || len(c2.Names(t)) > 0 {
		t.Errorf("left:\n%s", diff)
	}
	h.Start()
	if out := h.MustCtl("cni", "-o", "name"); out != "blue/c1/eth0\n" {
		t.Errorf("attached: %s", out)
	}
	if r := call(h, "DEL", "c1", small); r.Code != 0 {
		t.Errorf("DEL: %s%s", r.Out, r.Err)
	}
}
