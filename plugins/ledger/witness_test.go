package ledger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// crashDisk opens, at every write, what a process leaves that is killed before, within and
// after it, and reports each that counts as stale.
type crashDisk struct {
	*memDisk
	t      *testing.T
	w      Witness
	writes int
}

func (d *crashDisk) write(lines []byte) error {
	if d.writes++; d.writes%40 != 0 {
		return d.memDisk.write(lines)
	}
	d.check("before a write", d.file)
	err := d.memDisk.write(lines)
	d.check("after a write", d.file)
	// The kernel writes what comes behind the last line first.
	last := d.size - len(lines)
	torn := slices.Concat(d.file[:last], endLine(last), d.file[min(len(d.file), last+len(endLine(last))):])
	d.check("within a write", torn)
	return err
}

func (d *crashDisk) replace(lines []byte) error {
	if d.file != nil {
		d.check("before a replacement", d.file)
	}
	err := d.memDisk.replace(lines)
	d.check("after a replacement", d.file)
	return err
}

func (d *crashDisk) check(when string, file []byte) {
	d.t.Helper()
	if staleIn(d.t, file, d.w) {
		d.t.Errorf("%s, %d bytes are stale", when, len(file))
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// staleIn opens a file beside a copy of the witness.
func staleIn(t *testing.T, file []byte, w Witness) bool {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "witness")
	copyFile(t, w.Path, copied)
	l, found, err := open(&memDisk{file: slices.Clone(file)}, Witness{copied, w.Boot}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return found.Stale
}

// TestWitness: a ledger that is put back is stale within the boot, whatever it holds, and one
// that was written last is not, wherever its writer was killed.
func TestWitness(t *testing.T) {
	w := Witness{Path: filepath.Join(t.TempDir(), "witness"), Boot: "one"}
	d := &crashDisk{memDisk: &memDisk{}, t: t, w: w}
	var copies [][]byte
	run := func(from int) {
		l, found, err := open(d, w, nil)
		if err != nil || found.Stale {
			t.Fatalf("%+v, %v", found, err)
		}
		for i := range 1500 { // the ledger is rewritten within
			mustAdd(t, l, entry(fmt.Sprint("k", i%3), fmt.Sprint(from+i)))
			if i%500 == 7 {
				copies = append(copies, slices.Clone(d.file))
			}
		}
		l.Remove("k1")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	run(0)
	run(2000)
	for _, older := range copies {
		if bytes.Equal(older, d.file) {
			t.Fatal("the copy is not older")
		}
		if !staleIn(t, older, w) {
			t.Errorf("an older copy of %d bytes is not stale", len(older))
		}
		if staleIn(t, older, Witness{w.Path, "two"}) {
			t.Errorf("an older copy of %d bytes is stale in the next boot", len(older))
		}
	}
	var damage []string
	copied := filepath.Join(t.TempDir(), "witness")
	copyFile(t, w.Path, copied)
	l, found, err := open(&memDisk{file: copies[0]}, Witness{copied, w.Boot}, func(f Found) error {
		damage = append(damage, fmt.Sprint(f.Stale))
		return nil
	})
	if err != nil || !found.Stale || fmt.Sprint(damage) != "[true]" {
		t.Errorf("%+v, %v, told %v", found, err, damage)
	}
	_ = l.Close()
	if staleIn(t, copies[0], Witness{copied, w.Boot}) {
		t.Error("a stale ledger that was continued is stale again")
	}
}
