package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// TestTopRedraws: on a terminal each table takes the place of the one before, with rows
// up to a bound; elsewhere there is one table, and nothing for terminals.
func TestTopRedraws(t *testing.T) {
	w := apitest.New()
	w.Resources = apitest.Resources{}
	socket := apitest.Serve(t, w.Config())
	var out bytes.Buffer
	code := run(t.Context(), env{
		args:   []string{"containers", "top", "-n", "2", "--every", "1s"},
		stdout: &out, stderr: &bytes.Buffer{}, terminal: true, now: apitest.Noon,
		getenv: func(name string) string { return map[string]string{"PLUMB_SOCKET": socket}[name] },
	})
	if n := strings.Count(out.String(), home+"CONTAINER"); code != 0 || n != 2 || !strings.HasSuffix(out.String(), clearLine+clearRest) {
		t.Errorf("exit %d, %d tables: %q", code, n, out.String())
	}
	out.Reset()
	all := &apiv1.ResourcesResponse{Containers: []*apiv1.ContainerResources{
		{Name: "idle", ContainerId: "1", Rates: &apiv1.ResourceRates{CpuNanoCores: 1}},
		{Name: "busy", ContainerId: "2", Rates: &apiv1.ResourceRates{CpuNanoCores: 2}},
	}}
	c := &cli{env: env{stdout: &out, stderr: &out}, output: "table"}
	if err := (top{cli: c, rows: 1}).draw(all); err != nil || !strings.Contains(out.String(), "busy") || strings.Contains(out.String(), "idle") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%v %q", err, out.String())
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[uint64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 1<<20 - 1: "1.0MiB", 1 << 30: "1.0GiB", 1<<64 - 1: "16.0EiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
