package agent

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestLogParts: the parts with a level are those that log.
func TestLogParts(t *testing.T) {
	var found []string
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if matched, _ := filepath.Match("*_test.go", name); matched {
			continue
		}
		for _, m := range regexp.MustCompile(`\.With\("part", "(\w+)"\)`).FindAllSubmatch(text, -1) {
			found = append(found, string(m[1]))
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); !slices.Equal(found, logParts) {
		t.Errorf("parts that log: %q, parts with a level: %q", found, logParts)
	}
}
