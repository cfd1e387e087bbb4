package private_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/private"
)

// TestStateFiles: what stands in the place of a file of ours is refused at once, whatever
// it is, and nothing behind it is read or written.
func TestStateFiles(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"pipe":            func(p string) error { return unix.Mkfifo(p, 0o600) },
		"directory":       func(p string) error { return os.Mkdir(p, 0o700) },
		"symbolic link":   func(p string) error { return os.Symlink(target, p) },
		"dangling link":   func(p string) error { return os.Symlink(filepath.Join(dir, "nowhere"), p) },
		"device":          func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
		"socket":          func(p string) error { l, err := net.Listen("unix", p); t.Cleanup(func() { l.Close() }); return err },
		"file of another": func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chown(p, nobody, nobody)) },
		"file of another one": func(p string) error {
			return errors.Join(os.WriteFile(p, []byte("theirs"), 0o666), os.Chown(p, nobody, 0))
		},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := put(path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, err := private.ReadState(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: read %q, %v", name, text, err)
		}
		for _, flags := range []int{os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_CREATE, os.O_WRONLY | os.O_CREATE | os.O_TRUNC, os.O_RDWR} {
			if f, err := private.OpenFile(path, flags); err == nil {
				f.Close()
				t.Errorf("%s: opened with %x", name, flags)
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file-of-another-one")); string(text) != "theirs" || err != nil {
		t.Errorf("the file of another holds %q, %v", text, err)
	}
	if text, err := os.ReadFile(target); string(text) != "theirs" || err != nil {
		t.Errorf("behind the link is %q, %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "nowhere")); !os.IsNotExist(err) {
		t.Error("a file was made behind a link")
	}
	path := filepath.Join(dir, "ours")
	f, err := private.OpenFile(path, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("ours")
	info, err2 := f.Stat()
	if err := errors.Join(err, err2, f.Close(), os.Link(path, path+".backup")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	if text, err := private.ReadState(path); string(text) != "ours" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	if _, err := private.ReadState(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestRemoveUnfinished: what a kill has left of a file that was being written is removed,
// and nothing else.
func TestRemoveUnfinished(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".new-123", ".new-", "ledger", "new-1", ".newer"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, ".new-dir"), 0o700), os.Symlink("ledger", filepath.Join(dir, ".new-link")),
		os.WriteFile(filepath.Join(dir, ".new-theirs"), nil, 0o600), os.Chown(filepath.Join(dir, ".new-theirs"), nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(private.RemoveUnfinished(dir), private.RemoveUnfinished(filepath.Join(dir, "nowhere"))); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != ".new-dir .new-link .new-theirs .newer ledger new-1" {
		t.Errorf("left %s, %v", got, err)
	}
}
