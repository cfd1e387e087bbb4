package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every target of a package is found, in tests of both kinds, and run by itself; what one
// finds fails, and each counts beside the test that it is as well.
func TestFuzz(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod":         "module example.org/m\n\ngo 1.26\n",
		"a/a.go":         "package a\n",
		"a/a_test.go":    "package a\n\nimport \"testing\"\n\nfunc FuzzOne(f *testing.F) {}\nfunc TestX(t *testing.T) {}\n",
		"a/x_test.go":    "package a_test\n\nimport \"testing\"\n\nfunc FuzzTwo(f *testing.F) {}\n\n// func FuzzNot(f *testing.F) {}\n",
		"b/b_test.go":    "package b\n\nimport \"testing\"\n\nfunc TestY(t *testing.T) {}\n",
		"c/soak_test.go": "//go:build never\n\npackage c\n\nimport \"testing\"\n\nfunc FuzzNever(f *testing.F) {}\n",
		"c/c.go":         "package c\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	counted := newTally(&out)
	counted.line([]byte(`{"Action":"pass","Package":"example.org/m/a","Test":"FuzzOne"}`))
	var runs []string
	err := fuzz([]string{"-fuzztime=1s", "./..."}, counted, func(args []string, tl *tally) error {
		runs = append(runs, strings.Join(args, " "))
		if len(runs) == 2 {
			tl.line([]byte(`{"Action":"fail","Package":"example.org/m/a","Test":"FuzzTwo"}`))
			tl.line([]byte(`{"Action":"fail","Package":"example.org/m/a"}`))
			return errors.New("exit status 1")
		}
		tl.line([]byte(`{"Action":"pass","Package":"example.org/m/a","Test":"FuzzOne"}`))
		tl.line([]byte(`{"Action":"pass","Package":"example.org/m/a","Elapsed":1}`))
		return nil
	})
	want := []string{"-fuzztime=1s -run=^$ -fuzz=^FuzzOne$ example.org/m/a", "-fuzztime=1s -run=^$ -fuzz=^FuzzTwo$ example.org/m/a"}
	if !slices.Equal(runs, want) {
		t.Errorf("runs %q", runs)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "FuzzTwo of example.org/m/a: ") {
		t.Errorf("ended with %v", err)
	}
	if passed, failed, _ := counted.totals(); passed != 2 || failed != 1 {
		t.Errorf("%d passed, %d failed", passed, failed)
	}
	if !strings.Contains(out.String(), "pass  example.org/m/a: FuzzOne, 1.0s\n") {
		t.Errorf("printed:\n%s", &out)
	}
	if err := fuzz([]string{"./b"}, counted, nil); err == nil {
		t.Error("no target is no error")
	}
}
