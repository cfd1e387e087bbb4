package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/plugins/api/apitest"
)

// fullDisk takes no byte.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestNowhereToWrite: an answer that cannot be written is an error of every command, in
// every form, and nothing waits for the next line of it.
func TestNowhereToWrite(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "site.yaml"), filepath.Join(dir, "bad.yaml")
	for name, text := range map[string]string{good: "key: interface/b\nvalue: {bridge: {}}\n", bad: "key: interface/c\nvalue: {mtu: many}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := []string{
		"", "get", "get -w", "get -o json", "get interface/a -o yaml", "get -o name", "get -o template={{.}}",
		"why interface/a", "blame interface/a", "diff -o json", "dump", "events", "events -w --after 0", "history", "graph", "graph -o dot",
		`put interface/a {"bridge":{}}`, "delete interface/a", "apply -f " + good, "apply --dry-run -f " + good, "plan -f " + good,
		"wait interface/old --for gone", "resync -o json", "pause interface/a --reason test",
		"microservices", "containers", "cni", "kinds", "explain interface", "example interface", "schema interface", "validate -f " + bad,
		"kv", "kv list", "kv get config/interface/a", "status", "metrics", "log", "log list", "report -o -", "version", "gen-docs",
		"help", "get --help", "completion bash", "__complete get ",
	}
	facts := strings.Join([]string{
		`{"key":"interface/a","state":"drifted","desired":{"bridge":{},"mtu":1400},"actual":{"bridge":{},"mtu":1500}}`,
		`store config/interface/a {"bridge":{}}`,
		`record {"seq":1,"source":"etcd"}`,
		`event {"type":"agent_started"}`,
		`container {"runtime":"docker","container_id":"0123456789abcdef0123","name":"web"}`,
		`microservice web {"runtime":"docker","container_id":"0123456789abcdef0123","name":"web"}`,
		`attachment {}`,
	}, "\n")
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			w := apitest.New()
			if err := w.Script(facts); err != nil {
				t.Fatal(err)
			}
			socket := apitest.Serve(t, w.Config())
			var story bytes.Buffer
			code := run(context.Background(), env{
				args: strings.Fields(line), stdin: strings.NewReader(""), stdout: fullDisk{}, stderr: &story,
				getenv: func(k string) string { return map[string]string{"PLUMB_SOCKET": socket}[k] },
				now:    apitest.Noon,
			})
			if code != 2 || !strings.Contains(story.String(), "the output cannot be written: no space left on device") {
				t.Errorf("exit %d: %s", code, &story)
			}
		})
	}
}
