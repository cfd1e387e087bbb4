package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// golden compares a text with testdata/golden/NAME; -rewrite writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata/golden", name)
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
