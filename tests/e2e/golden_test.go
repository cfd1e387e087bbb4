package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// golden compares a text with testdata/golden/NAME; -rewrite writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := goldenPath(name)
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not as in %s:\n%s", path, host.Diff(string(want), got))
	}
}

func goldenPath(name string) string { return filepath.Join("testdata/golden", name) }

// ends waits until the host is as testdata/golden/NAME tells it, as the directive end of
// stories does; -rewrite writes it. dir is a directory of the test that it may tell of.
func ends(t *testing.T, h *host.Host, name, dir string) {
	t.Helper()
	want, _ := os.ReadFile(goldenPath(name)) // golden tells if there is none
	s := &script{Host: h, t: t, d: &datadriven.TestData{Expected: string(want)}, dir: dir}
	golden(t, name, s.until(s.End))
}
