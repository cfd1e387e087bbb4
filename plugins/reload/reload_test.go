package reload_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/reload"
)

// sum parses files that hold a word each.
func sum(texts [][]byte) (string, error) {
	all := string(bytes.Join(texts, []byte("+")))
	if strings.Contains(all, "bad") {
		return "", errors.New("a file is bad")
	}
	return all, nil
}

// TestFollows: what is written is in use, what is damaged changes nothing and is told once,
// and so is its end.
func TestFollows(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(a, "1")
	o := reload.Options{What: "words", Read: os.ReadFile, Every: time.Nanosecond}
	if _, err := reload.New(o, sum, a, b); err == nil || !strings.Contains(err.Error(), b) {
		t.Fatalf("of a missing file: %v", err)
	}
	write(b, "bad")
	if _, err := reload.New(o, sum, a, b); err == nil || err.Error() != "a file is bad" {
		t.Fatalf("of a damaged file: %v", err)
	}
	write(b, "2")
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	v, err := reload.New(o, sum, a, b)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(value, wrong string) {
		t.Helper()
		for range 2 {
			time.Sleep(time.Microsecond)
			if got := v.Get(); got != value {
				t.Errorf("value %q, want %q", got, value)
			}
			if got := fmt.Sprint(v.Err()); !strings.Contains(got, wrong) {
				t.Errorf("error %q, want %q", got, wrong)
			}
		}
	}
	expect("1+2", "nil")
	write(b, "3") // the same size, within the same tick of the file system's clock
	expect("1+3", "nil")
	write(a, "bad")
	expect("1+3", "a file is bad")
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	expect("1+3", "no such file")
	write(a, "1")
	expect("1+3", "nil")
	if err := os.Rename(b, a); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", b); err != nil {
		t.Fatal(err)
	}
	expect("3+3", "nil")
	for text, n := range map[string]int{"are in use": 2, "a file is bad": 1, "no such file": 1} {
		if got := strings.Count(log.String(), text); got != n {
			t.Errorf("%q is told %d times, want %d:\n%s", text, got, n, log.String())
		}
	}
}

// TestSeldom: files are read at most once in a while.
func TestSeldom(t *testing.T) {
	reads := 0
	o := reload.Options{Read: func(string) ([]byte, error) { reads++; return nil, nil }, Every: time.Hour}
	v, err := reload.New(o, sum, "a")
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		v.Get()
	}
	if reads != 1 {
		t.Errorf("%d reads", reads)
	}
}
