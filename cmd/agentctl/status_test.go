package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/scheduler"
)

// TestStatusWaits: it ends when the agent has become ready.
func TestStatusWaits(t *testing.T) {
	w := apitest.New()
	if err := w.Script("silent files"); err != nil {
		t.Fatal(err)
	}
	socket := apitest.Serve(t, w.Config())
	status := func(socket string, args ...string) (int, string) {
		var out, story bytes.Buffer
		code := run(context.Background(), env{
			args: append([]string{"status", "--socket", socket, "-o", "template={{.state}}"}, args...), stdout: &out, stderr: &story,
			getenv: func(string) string { return "" }, now: apitest.Noon,
		})
		return code, out.String() + story.String()
	}
	time.AfterFunc(50*time.Millisecond, func() { w.Engine.Source(scheduler.SourceState{Name: "files", Synced: true}) })
	if code, text := status(socket, "--wait"); code != 0 || text != "ready\n" {
		t.Errorf("exit %d: %s", code, text)
	}
	if code, text := status(filepath.Join(t.TempDir(), "none"), "--wait", "--timeout", "10ms"); code != 2 {
		t.Errorf("no agent: exit %d: %s", code, text)
	}
}
