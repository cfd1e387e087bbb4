package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

func Example() {
	main()
	// Output:
	// site: [file/site pending: needs file/base] <nil>
	// base as well: [file/base configured] <nil>
	// somebody removed base: [file/base configured] <nil>
	// nothing any more: [file/base removed file/site removed] <nil>
}

// TestConform is what it takes to hold a simple kind to the contract.
func TestConform(t *testing.T) {
	dir := t.TempDir()
	schedulertest.Conform(t, files(dir), schedulertest.Spec[string, none]{
		Samples: []schedulertest.Sample[string]{
			{Key: "file/base", Values: []string{"colour blue", "colour red"}},
			{Key: "file/site", Values: []string{"include base", "", "colour green"}},
		},
		Remove: func(_ testing.TB, k scheduler.Key) {
			os.Remove(filepath.Join(dir, strings.TrimPrefix(string(k), "file/")))
		},
	})
}
