package cni_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// TestReplay: what was left is done at the start, the oldest first; what fails
// is tried at some more starts and then put aside; what cannot be read at once.
func TestReplay(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	leave := func(container string, at int64) {
		r := request("DEL", container)
		r.Protocol, r.Queued = 0, at
		must(t, wire.Leave(run, r))
	}
	leave("young", 30)
	leave("old", 10)
	leave("fails", 20)
	leave("old", 11) // once more
	must(t, os.WriteFile(filepath.Join(run, "cni-queue", "torn.json"), []byte(`{"command":"DE`), 0o600))
	must(t, os.WriteFile(filepath.Join(run, "cni-queue", "add.json"), []byte(`{"command":"ADD"}`), 0o600))
	var served []string
	h := handler(func(_ context.Context, c cni.Call) wire.Answer {
		served = append(served, c.ContainerID)
		if c.ContainerID == "fails" {
			return wire.Answer{Error: &spec.Error{Code: spec.TryLater, Msg: "not now"}}
		}
		return wire.Answer{}
	})
	for start, want := range []string{"old fails young, 2 done", "fails, 0 done", "fails, 0 done", "fails, 0 done", "fails, 0 done", ", 0 done"} {
		served = nil
		n := cni.Replay(t.Context(), run, h, slog.New(slog.DiscardHandler))
		if got := fmt.Sprintf("%s, %d done", strings.Join(served, " "), n); got != want {
			t.Errorf("start %d: %s, want %s", start, got, want)
		}
	}
	files, err := os.ReadDir(filepath.Join(run, "cni-queue"))
	must(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if len(names) != 3 || !slices.ContainsFunc(names, func(n string) bool { return n == "torn.json.bad" }) ||
		slices.ContainsFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".bad") }) {
		t.Errorf("left %v", names)
	}
}

// An agent that was never asked has nothing to do; one that stops leaves the rest.
func TestNothingAndTooMuch(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	h := handler(func(context.Context, cni.Call) wire.Answer { return wire.Answer{} })
	if n := cni.Replay(t.Context(), run, h, slog.New(slog.DiscardHandler)); n != 0 {
		t.Error(n)
	}
	must(t, wire.Leave(run, request("DEL", "c1")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n := cni.Replay(ctx, run, h, slog.New(slog.DiscardHandler)); n != 0 {
		t.Error(n)
	}
	if left, _, err := wire.Queue(run); len(left) != 1 || err != nil {
		t.Error(left, err)
	}
}

// TestBounded: the queue does not fill the disk; a call that is in it may still
// take its own place.
func TestBounded(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	must(t, wire.Leave(run, request("DEL", "first")))
	for i := range 9999 {
		must(t, os.WriteFile(filepath.Join(run, "cni-queue", fmt.Sprint(i, ".json")), nil, 0o600))
	}
	if err := wire.Leave(run, request("DEL", "one")); err == nil || !strings.Contains(err.Error(), "10000 calls are left") {
		t.Errorf("one more: %v", err)
	}
	must(t, wire.Leave(run, request("DEL", "first")))
}
