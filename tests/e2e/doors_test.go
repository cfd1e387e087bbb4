package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestReach: what a writer of etcd may reach of the host is bounded by the policy, and
// a policy may say so of some keys only.
func TestReach(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true, Args: []string{"--policy", "interface/mine existing=ours*, * existing=none hook=nat:*"}})
	h.Start()
	before := h.Exact()
	for key, c := range map[string]struct{ value, want string }{
		"interface/p":   {fmt.Sprintf(`{"namespace":{"pid":%d},"bridge":{}}`, os.Getpid()), "namespace.pid: process"},
		"interface/f":   {`{"namespace":{"path":"/proc/1/ns/net"},"bridge":{}}`, "namespace.path: /proc/1/ns/net is in the network namespace of the host"},
		"interface/x":   {`{"host_name":"ours0","existing":{}}`, "policy: \"interface/x existing=ours0\""},
		"nftables/in":   {`{"chains":[{"name":"in","type":"filter","hook":"input","policy":"drop"}]}`, "chains[0].hook"},
		"interface/tmp": {`{"namespace":{"path":"/tmp/ns"},"bridge":{}}`, "namespace.path: /tmp/ns is not where"},
	} {
		if r := h.Ctl("put", key, c.value); r.Code != 2 || !strings.Contains(r.Err, c.want) {
			t.Errorf("put %s: exit %d\n%s", key, r.Code, r.Err)
		}
		h.Put(key, c.value)
		h.Await("invalid", key)
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	h.Put("interface/mine", `{"host_name":"ours1","existing":{}}`)
	h.Put("nftables/nat", `{"chains":[{"name":"post","type":"nat","hook":"postrouting"}]}`)
	h.AwaitConfigured("nftables/nat")
	h.Await("pending", "interface/mine")
}

// TestNameOfOwnNamespace: a name that leads to the agent's own namespace is no way into it,
// neither from the start nor when another namespace had the name before; the objects in that
// one do not come to the agent's. When the name is given back they are built again.
func TestNameOfOwnNamespace(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true, Fast: true})
	h.Start()
	before, box := h.Exact(), netlinktest.New(t)
	lead := func(name, file string) {
		t.Helper()
		next := filepath.Join(h.NetnsDir(), ".next")
		if err := errors.Join(os.Symlink(file, next), os.Rename(next, filepath.Join(h.NetnsDir(), name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(h.NetnsDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	lead("alias", h.Own.Path)
	values := map[string]string{
		"interface/br": `{"namespace":{"netns":"NAME"},"bridge":{}}`,
		"sysctl/fwd":   `{"namespace":{"netns":"NAME"},"key":"net.ipv4.ip_forward","value":"1"}`,
		"nftables/in":  `{"namespace":{"netns":"NAME"},"chains":[{"name":"in","type":"filter","hook":"input","policy":"drop"}]}`,
		"proxy/p":      `{"listen":{"namespace":{"netns":"NAME"},"address":"0.0.0.0:4711"},"forward":{"address":"127.0.0.1:80"}}`,
	}
	for key, value := range values {
		value = strings.ReplaceAll(value, "NAME", "alias")
		if r := h.Ctl("put", key, value); r.Code != 2 || !strings.Contains(r.Err, "is the network namespace of the host or of the agent") {
			t.Errorf("put %s: exit %d\n%s", key, r.Code, r.Err)
		}
		h.Put(key, value)
		h.Await("invalid", key)
		h.Delete(key)
	}
	lead("blue", box.Path)
	for key, value := range values {
		h.Put(key, strings.ReplaceAll(value, "NAME", "blue"))
		h.AwaitConfigured(key)
	}
	lead("blue", h.Own.Path)
	for key := range values {
		h.Await("pending", key)
	}
	// Without the names, which would show the agent's namespace as theirs.
	for _, name := range []string{"alias", "blue"} {
		if err := os.Remove(filepath.Join(h.NetnsDir(), name)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	lead("blue", box.Path)
	for key := range values {
		h.AwaitConfigured(key)
	}
	if err := os.Remove(filepath.Join(h.NetnsDir(), "blue")); err != nil { // its namespace ends before the host
		t.Fatal(err)
	}
}

// TestSystemDirectoriesStay: an agent that is told to use a directory of the system, as
// /run with its directory lock, refuses and changes nothing.
func TestSystemDirectoriesStay(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	system := filepath.Join(t.TempDir(), "run")
	if err := errors.Join(os.MkdirAll(filepath.Join(system, "lock"), 0o755), os.Mkdir(filepath.Join(system, "udev"), 0o755), os.Chmod(system, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--run-dir", "--state-dir"} {
		ctx, cancel := context.WithTimeout(t.Context(), host.Patience)
		defer cancel()
		cmd := h.AgentCommand(ctx, append(h.AgentArgs(), flag, system)...)
		var said bytes.Buffer
		cmd.Stderr = &said
		_ = cmd.Run()
		want := "plumb-agent: " + flag + ": " + system + " holds things that are not ours, such as lock: name an empty directory"
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.HasPrefix(said.String(), want) {
			t.Errorf("%s: exit %d\n%swant\n%s", flag, code, said.String(), want)
		}
		entries, err := os.ReadDir(system)
		if st, wrong := os.Stat(system); err != nil || wrong != nil || st.Mode().Perm() != 0o755 || len(entries) != 2 {
			t.Errorf("%s: it has mode %v and holds %v (%v, %v)", flag, st.Mode(), entries, err, wrong)
		}
	}
}
