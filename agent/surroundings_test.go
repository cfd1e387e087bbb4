package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/plugins/private"
)

// TestRemovedFiles: each file and directory that an agent has is removed while it runs. It is there
// again soon, the agent answers, the status says so, and a restart finds all that was made.
func TestRemovedFiles(t *testing.T) {
	k, c := kerneltest.New(kerneltest.Options{}), onMemory(t, "host8")
	stop := runOn(t, c, k)
	api := client.New(filepath.Join(c.RunDir, "agent.sock"))
	defer func() { api.Close() }()
	ready := func() bool {
		status, _, err := api.Page(t.Context(), "/readyz")
		return err == nil && status == 200
	}
	netlinktest.Eventually(t, "it is ready", ready)
	if _, err := api.Put(t.Context(), &apiv1.PutRequest{Key: "interface/br0", Text: `{"bridge":{}}`, Wait: true}); err != nil {
		t.Fatal(err)
	}
	reason := func() string {
		status, err := api.AgentStatus(t.Context(), &apiv1.AgentStatusRequest{})
		if err != nil {
			return err.Error()
		}
		i := slices.IndexFunc(status.Parts, func(h *apiv1.Health) bool { return h.Name == "directories" })
		if i < 0 {
			return ""
		}
		return status.Parts[i].State + ": " + status.Parts[i].Reason
	}
	if got := reason(); got != "" {
		t.Errorf("nothing was removed, and the status says %q", got)
	}
	for _, path := range []string{
		"run/agent.sock", "run/agent.sock.lock", "run/etcd.sock", "run/etcd.sock.lock", "run",
		"state/lock", "state/label", "state/uuid", "state/ledger",
	} {
		whole := filepath.Join(filepath.Dir(c.RunDir), path)
		if err := os.RemoveAll(whole); err != nil {
			t.Fatal(err)
		}
		if isThere := !isGone(whole); isThere {
			t.Fatalf("%s is there at once", path)
		}
		netlinktest.Eventually(t, path+" is there again", func() bool { return !isGone(whole) })
		for _, socket := range []string{"agent.sock", "etcd.sock"} {
			netlinktest.Eventually(t, socket+" answers after the end of "+path, func() bool {
				conn, err := private.Dial(t.Context(), filepath.Join(c.RunDir, socket))
				if err == nil {
					conn.Close()
				}
				return err == nil
			})
		}
		api.Close() // connections that were open say nothing
		netlinktest.Eventually(t, "it is ready after the end of "+path, ready)
		if name := filepath.Base(path); name != "run" && !strings.HasPrefix(name, "etcd") { // that one is of another process, which logs it
			netlinktest.Eventually(t, "the status names "+path, func() bool {
				return strings.Contains(reason(), strings.TrimSuffix(name, ".lock")+" was removed by another process and created again") || strings.Contains(reason(), whole+" was removed")
			})
		}
	}
	second := c
	second.RunDir = filepath.Join(filepath.Dir(c.RunDir), "second")
	if err := RunOn(t.Context(), second, kerneltest.New(kerneltest.Options{}), slog.DiscardHandler); err == nil || !strings.Contains(err.Error(), "another plumb-agent") {
		t.Errorf("a second agent has the state directory: %v", err)
	}
	stop()
	before := k.Writes()
	runOn(t, c, k)
	netlinktest.Eventually(t, "it is ready after a restart", ready)
	got, err := api.Get(t.Context(), &apiv1.GetRequest{Key: "interface/br0"})
	if err != nil || got.State != "configured" || k.Writes() != before {
		t.Errorf("after a restart: %v, %v, %d writes", got, err, k.Writes()-before)
	}

	// What cannot be created again is reported: here, or by the store, once it notices itself.
	if err := os.RemoveAll(filepath.Join(c.StateDir, "etcd")); err != nil {
		t.Fatal(err)
	}
	netlinktest.Eventually(t, "the status names etcd", func() bool {
		status, err := api.AgentStatus(t.Context(), &apiv1.AgentStatusRequest{})
		return err == nil && slices.ContainsFunc(status.Parts, func(h *apiv1.Health) bool {
			return h.Name == "etcd" && h.State != "ok" || strings.Contains(h.Reason, "etcd was removed and cannot be created again: the data of the embedded etcd")
		})
	})
}

// TestRenamedHost: an agent refuses the state directory of another label, names the way out, and
// changes nothing; a cleanup ends that.
func TestRenamedHost(t *testing.T) {
	k, c := kerneltest.New(kerneltest.Options{}), onMemory(t, "old-name")
	runOn(t, c, k)()
	renamed := c
	renamed.Label = "new-name"
	err := RunOn(t.Context(), renamed, k, slog.DiscardHandler)
	for _, want := range []string{`is of the label "old-name"`, `has the label "new-name"`, "--label old-name", `plumb-agent cleanup --label old-name`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not have %q: %v", want, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(c.StateDir, labelFile)); err != nil || !strings.HasSuffix(string(text), " old-name\n") {
		t.Errorf("the directory is of %q, %v", text, err)
	}
	runOn(t, c, k)() // with its own it starts
	if err := forgetLabel(c); err != nil {
		t.Fatal(err)
	}
	runOn(t, renamed, k)()
	kept, err := os.ReadFile(filepath.Join(c.StateDir, labelFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "a b\n", strings.Repeat("x", 2000), strings.Replace(string(kept), "new", "old", 1)} { // damaged
		if err := os.WriteFile(filepath.Join(c.StateDir, labelFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		runOn(t, renamed, k)()
		if now, err := os.ReadFile(filepath.Join(c.StateDir, labelFile)); err != nil || string(now) != string(kept) {
			t.Errorf("%.10q: the file is %q, %v; want %q", text, now, err, kept)
		}
	}
}
