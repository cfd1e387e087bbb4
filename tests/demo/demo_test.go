package demo

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/docker/dockertest"
)

// TestDemo runs make demo.
func TestDemo(t *testing.T) {
	needRoot(t)
	out := script(t, "MAKEFLAGS= make --no-print-directory demo")
	if !strings.HasSuffix(strings.TrimSpace(out), "Done: every step was checked.\x1b[0m") {
		t.Errorf("the demo did not come to its end:\n%s", out)
	}
}

// TestTour does what the tour of the README says, line by line, on an engine of
// its own.
func TestTour(t *testing.T) {
	needRoot(t)
	engine := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", engine.Host)
	t.Setenv("PLUMB_DOCKER", engine.Host)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tour, found := strings.Cut(string(readme), "\n## A tour")
	tour, _, ended := strings.Cut(tour, "\n## ")
	if !found || !ended {
		t.Fatal("the README has no section with a tour")
	}
	lines := []string{"set -e", "trap 'code=$?; set +e; " + clearTour + "; exit $code' EXIT"}
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(tour, -1) {
		lines = append(lines, m[1])
	}
	out := script(t, strings.Join(lines, "\n"))
	t.Log(out)
	for _, want := range []string{"interface/web", "10.61.0.2 answers in", "plumb_kernel_writes_total 0\n", "nothing is left"} {
		if !strings.Contains(out, want) {
			t.Errorf("the tour did not show %q", want)
		}
	}
}

// clearTour is for tours that fail on their way.
const clearTour = `docker rm --force tour-web tour-db >/dev/null 2>&1
if [ -n "$agent" ]; then kill $agent 2>/dev/null; wait $agent; bin/plumb-agent cleanup >/dev/null 2>&1; fi
docker rmi plumb-tour >/dev/null 2>&1; rm -rf /run/plumb-tour /var/lib/plumb-tour /var/log/plumb-tour.log`

func script(t *testing.T, text string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", text)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func needRoot(t *testing.T) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("the demo needs root")
	default:
		t.Skip("the demo needs root")
	}
}
