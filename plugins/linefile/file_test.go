package linefile

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
		if _, err := f.Append([]byte(r)); err != nil {
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
	var large *TooLargeError
	if n, err := f.Append([]byte("before"), make([]byte, 600), []byte("after")); n != 3 || !errors.As(err, &large) || large.Records != 1 {
		t.Errorf("%d done, %v", n, err)
	}
	if got := holds(t, f.dir); !strings.HasSuffix(got, " before after") {
		t.Error(got)
	}
	// More at once than a file holds goes into several, and the newest stay.
	var many [][]byte
	for i := range 100 {
		many = append(many, fmt.Appendf(nil, "many-%03d", i))
	}
	if n, err := f.Append(many...); n != len(many) || err != nil {
		t.Errorf("%d done, %v", n, err)
	}
	if got := holds(t, f.dir); !strings.HasSuffix(got, " many-098 many-099") {
		t.Error(got)
	}
}

// trouble is a disk on which things fail when they are told to.
type trouble struct{ open, rename, write, truncate bool }

var errTrouble = errors.New("no space left on device")

func (d *trouble) disk() disk {
	return disk{
		open: func(path string) (storage, error) {
			if d.open {
				return nil, errTrouble
			}
			file, err := realDisk.open(path)
			return troubled{file, d}, err
		},
		rename: func(from, to string) error {
			if d.rename {
				return errTrouble
			}
			return realDisk.rename(from, to)
		},
	}
}

type troubled struct {
	storage
	d *trouble
}

// WriteAt writes a part before it fails, as a full disk does.
func (f troubled) WriteAt(p []byte, at int64) (int, error) {
	if f.d.write {
		n, _ := f.storage.WriteAt(p[:len(p)/2], at)
		return n, errTrouble
	}
	return f.storage.WriteAt(p, at)
}

func (f troubled) Truncate(size int64) error {
	if f.d.truncate {
		return errTrouble
	}
	return f.storage.Truncate(size)
}

// Whatever fails, at every record, also when the file is renamed or the next
// one opened: what was said to be written is there, nothing else is, and it goes
// on when the disk does.
func TestTrouble(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	f, _ := open(t, dir, 1000)
	defer func() { f.Close() }()
	d := &trouble{}
	f.disk = d.disk()
	var written []string
	failed := 0
	for i := range 2000 {
		*d = trouble{}
		if r.IntN(3) == 0 {
			*d = trouble{open: r.IntN(3) == 0, rename: r.IntN(3) == 0, write: r.IntN(3) == 0, truncate: r.IntN(3) == 0}
		}
		record := fmt.Sprintf("record-%04d", i)
		n, err := f.Append([]byte(record))
		if (err == nil) != (n == 1) {
			t.Fatalf("%d done, %v", n, err)
		}
		if err == nil {
			written = append(written, record)
		} else {
			failed++
		}
		if i%50 == 0 { // and another run goes on from there
			f.Close()
			var got string
			if f, got = open(t, dir, 1000); !strings.HasSuffix(strings.Join(written, " "), got) || len(got) < min(240, 12*len(written)-1) {
				t.Fatalf("after %d records it holds\n%s\nwant the last of\n%s", i+1, got, strings.Join(written[max(0, len(written)-60):], " "))
			}
			f.disk = d.disk()
		}
	}
	if failed < 100 {
		t.Errorf("only %d failed", failed)
	}
}

// After the file was renamed the next one cannot be opened: nothing is written
// over the older records.
func TestTheNextFileCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	f, _ := open(t, dir, 1000)
	defer func() { f.Close() }()
	d := &trouble{}
	f.disk = d.disk()
	for i := range 20 {
		d.open = i > 0 // the first file is open
		_, _ = f.Append(fmt.Appendf(nil, "record-%03d", i))
	}
	if got := strings.Fields(holds(t, dir)); len(got) < 15 || got[0] != "record-000" || got[len(got)-1] != fmt.Sprintf("record-%03d", len(got)-1) {
		t.Errorf("it holds %v", got)
	}
	d.open = false
	if _, err := f.Append([]byte("again")); err != nil {
		t.Error(err)
	}
	if got := holds(t, dir); !strings.HasPrefix(got, "record-000 ") || !strings.HasSuffix(got, " again") {
		t.Errorf("it holds %s", got)
	}
}

// FuzzOpen: whatever a file holds, it is read as far as it is whole, and gone on
// from; what is added is there.
func FuzzOpen(f *testing.F) {
	good := AppendLine(AppendLine(nil, []byte(`{"format":"log","version":2}`)), []byte("one"))
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add(append(append([]byte{}, good...), "\n\n00000000 \n"...))
	f.Add(AppendLine(nil, []byte(`{"format":"log","version":3}`)))
	f.Add([]byte("D87F7E0C test\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "log"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		file, before, _, err := Open(dir, format, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Append([]byte("more")); err != nil || file.Close() != nil {
			t.Fatal(err)
		}
		file, after, _, err := Open(dir, format, 1<<20)
		if err != nil || len(after) != len(before)+1 || string(after[len(before)]) != "more" {
			t.Fatalf("before %q, after %q, %v", before, after, err)
		}
		file.Close()
	})
}

// Lines of former versions have the checksum that zip has.
func TestFormerChecksum(t *testing.T) {
	if got, err := ParseLine([]byte("d87f7e0c test")); err != nil || string(got) != "test" {
		t.Errorf("%q, %v", got, err)
	}
}
