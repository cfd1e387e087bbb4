package linefile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var format = Format{Name: "log", Version: 2}

func open(t *testing.T, dir string, limit int64) (*File, string) {
	t.Helper()
	f, records, aside, err := Open(dir, format, limit)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range records {
		out = append(out, string(r))
	}
	for _, a := range aside {
		out = append(out, "aside:"+filepath.Base(a))
	}
	return f, strings.Join(out, " ")
}

func write(t *testing.T, dir string, limit int64, records ...string) {
	t.Helper()
	f, _ := open(t, dir, limit)
	defer f.Close()
	for _, r := range records {
		if err := f.Append([]byte(r)); err != nil {
			t.Fatal(err)
		}
	}
}

func holds(t *testing.T, dir string) string {
	t.Helper()
	f, out := open(t, dir, 1<<20)
	f.Close()
	return out
}

// Wherever a crash cuts the file: whole lines are read, the rest is dropped,
// and it goes on from there.
func TestCutAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1<<20, "one", "two", "three")
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) + 1 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "log"), text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		whole := []string{"one", "two", "three"}[:max(0, strings.Count(string(text[:n]), "\n")-1)]
		if got := holds(t, dir); got != strings.Join(whole, " ") {
			t.Fatalf("cut at %d: %s", n, got)
		}
		write(t, dir, 1<<20, "on")
		if got := holds(t, dir); got != strings.Join(append(whole, "on"), " ") {
			t.Fatalf("cut at %d and gone on: %s", n, got)
		}
	}
}

// A damaged byte costs its own line, or the line that it joins to it.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1<<20, "one", "two", "three", "four")
	path := filepath.Join(dir, "log")
	text, _ := os.ReadFile(path)
	head := strings.IndexByte(string(text), '\n') + 1
	for n := head; n < len(text); n++ {
		bad := append([]byte(nil), text...)
		bad[n] ^= 0x20
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := len(strings.Fields(holds(t, dir))); got < 2 || got > 3 {
			t.Fatalf("byte %d damaged: %d records", n, got)
		}
	}
}

// Files that somebody else understands are left alone.
func TestUnknown(t *testing.T) {
	for name, first := range map[string]string{
		"later": `{"format":"log","version":3}`,
		"other": `{"format":"ledger","version":1}`,
		"bare":  "one",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "log")
		text := string(AppendLine(AppendLine(nil, []byte(first)), []byte("kept")))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := holds(t, dir); got != "aside:log.aside" {
			t.Errorf("%s: %s", name, got)
		}
		if kept, _ := os.ReadFile(path + ".aside"); string(kept) != text {
			t.Errorf("%s: %q", name, kept)
		}
		write(t, dir, 1<<20, "new")
		if got := holds(t, dir); got != "new" {
			t.Errorf("%s: %s", name, got)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log"), AppendLine(nil, []byte(`{"format":"log","version":1}`)), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, dir, 1<<20, "more")
	if got := holds(t, dir); got != "more" {
		t.Errorf("an older version: %s", got)
	}
}

// The files keep to their bound, and the newest records stay.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	for i := range 200 {
		write(t, dir, 1000, fmt.Sprintf("record-%03d", i))
		size := int64(0)
		for _, name := range []string{"log", "log.1"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
				size += info.Size()
				if info.Mode().Perm() != 0o600 {
					t.Fatalf("%v", info.Mode())
				}
			}
		}
		if size > 1000 {
			t.Fatalf("%d bytes on disk", size)
		}
	}
	got := strings.Fields(holds(t, dir))
	if len(got) < 20 || got[len(got)-1] != "record-199" {
		t.Fatalf("%d records are left: %v", len(got), got)
	}
	for i, r := range got {
		if want := fmt.Sprintf("record-%03d", 200-len(got)+i); r != want {
			t.Errorf("record %d is %s", i, r)
		}
	}
	f, _ := open(t, dir, 1000)
	defer f.Close()
	if err := f.Append(make([]byte, 600)); err == nil {
		t.Error("too much at once was taken")
	}
	if err := f.Append([]byte("after")); err != nil {
		t.Error(err)
	}
}

// Lines of former versions have the checksum that zip has.
func TestFormerChecksum(t *testing.T) {
	if got, err := ParseLine([]byte("d87f7e0c test")); err != nil || string(got) != "test" {
		t.Errorf("%q, %v", got, err)
	}
}
