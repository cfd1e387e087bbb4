package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

// TestInstalledConfig: the file that is installed names every setting in the order of the
// help texts, with its default, and sets none.
func TestInstalledConfig(t *testing.T) {
	text, err := os.ReadFile("../deploy/plumb.yaml")
	if err != nil {
		t.Fatal(err)
	}
	setting := regexp.MustCompile(`(?m)^#([a-z-]+): `)
	var got, want []string
	for _, m := range setting.FindAllSubmatch(text, -1) {
		got = append(got, string(m[1]))
	}
	for _, s := range Settings() {
		want = append(want, s.Name)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it names %q\nwant %q", got, want)
	}
	file := filepath.Join(t.TempDir(), "plumb.yaml")
	nothing := func(string) (string, bool) { return "", false }
	defaults, err := Load("", nothing, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"as it is": text, "without the hashes": setting.ReplaceAll(text, []byte("$1: "))} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := Load(file, nothing, nil); err != nil || c.YAML() != defaults.YAML() {
			t.Errorf("%s: %v\n%s", name, err, c.YAML())
		}
	}
}
