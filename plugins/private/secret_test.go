package private_test

import (
	"errors"
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

// TestReadTrusted: what others can see is read, what they can change is not; and of a file
// of a user only its mode counts.
func TestReadTrusted(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, []byte("text\n"), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	seen, open, closed, theirs := write("seen", 0o644), write("open", 0o666), write("closed", 0o600), write("theirs", 0o600)
	if err := os.Chown(theirs, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		file            string
		trusted, closed string
	}{
		{seen, "", "others may read " + seen + " (mode 0644); close it with chmod 600"},
		{open, "others may write to " + open + " (mode 0666); close it with chmod go-w", "others may read"},
		{closed, "", ""},
		{theirs, "belongs to user 65534", ""},
		{dir, "is no regular file", "is no regular file"},
	} {
		for what, read := range map[string]func(string, int64) ([]byte, error){"trusted": private.ReadTrusted, "closed": private.ReadClosed} {
			want := map[string]string{"trusted": tc.trusted, "closed": tc.closed}[what]
			text, err := read(tc.file, 5)
			if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) || err == nil && string(text) != "text\n" {
				t.Errorf("%s %s: %q, %v; want %q", what, tc.file, text, err, want)
			}
		}
	}
	if _, err := private.ReadClosed(closed, 4); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("a long file: %v", err)
	}
}
