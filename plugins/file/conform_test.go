package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/file"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/intent/intenttest"
)

// TestConform holds the source to the contract of sources of intent. A directory that is replaced by an
// empty one is a directory of which all files were deleted: programs that manage configurations do so.
func TestConform(t *testing.T) {
	intenttest.Conform(t, func(t *testing.T) intenttest.World {
		dir := filepath.Join(t.TempDir(), "intent")
		at := dir // where the files are
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(os.Mkdir(dir, 0o755))
		name := func(key string) string { return filepath.Join(at, strings.ReplaceAll(key, "/", "-")+".json") }
		return intenttest.World{
			New: func(to intenttest.Submitter) (intent.Source, error) {
				return file.New(dir, to, file.Options{Settle: 10 * time.Millisecond, Rescan: 100 * time.Millisecond}), nil
			},
			Put: func(key, value string) {
				// In one step: a source may read a file that is half written, and keeps what it was.
				must(os.WriteFile(name(key)+".new", fmt.Appendf(nil, `{"intent":{%q:%s}}`, key, value), 0o644))
				must(os.Rename(name(key)+".new", name(key)))
			},
			Delete: func(key string) { must(os.Remove(name(key))) },
			Away:   func() { at = dir + ".away"; must(os.Rename(dir, at)) },
			Back:   func() { must(os.Rename(at, dir)); at = dir },
		}
	})
}
