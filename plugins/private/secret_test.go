package private_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/private"
)

// TestReadSecret: what others may read is refused, and no error tells what is in it.
func TestReadSecret(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good", "hush\n", 0o600)
	if err := os.Symlink("good", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{good, filepath.Join(dir, "link")} {
		if text, err := private.ReadSecret(file); err != nil || text != "hush" {
			t.Errorf("%q, %v", text, err)
		}
	}
	theirs := write("theirs", "hush", 0o600)
	if os.Geteuid() == 0 {
		if err := os.Chown(theirs, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{
		write("open", "hush", 0o640):                       "chmod 600",
		write("long", strings.Repeat("hush", 2000), 0o600): "more than 4096 bytes",
		filepath.Join(dir, "none"):                         "no such file",
		dir:                                                "no regular file",
		theirs:                                             "belongs to user 65534",
	} {
		if os.Geteuid() != 0 && file == theirs {
			continue
		}
		text, err := private.ReadSecret(file)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") || text != "" {
			t.Errorf("%s: %q, %v, want %q", file, text, err, want)
		}
	}
}
