package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Every target of a package is found, in tests of both kinds, and run by itself; what one
// finds fails, one that fails and finds nothing has a second try, and each counts beside
// the test that it is as well. Two of a package do not run at the same time.
func TestFuzz(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod":         "module example.org/m\n\ngo 1.26\n",
		"a/a.go":         "package a\n",
		"a/a_test.go":    "package a\n\nimport \"testing\"\n\nfunc FuzzOne(f *testing.F) {}\nfunc FuzzLate(f *testing.F) {}\nfunc TestX(t *testing.T) {}\n",
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
	var mu sync.Mutex
	runs := map[string]int{}
	err := fuzz([]string{"-fuzztime=1s", "./..."}, counted, func(args []string, line func([]byte)) error {
		if !mu.TryLock() {
			t.Errorf("%s runs beside another of its package", args)
			mu.Lock()
		}
		defer mu.Unlock()
		run := strings.Join(args, " ")
		name := regexp.MustCompile(`Fuzz[A-Z]\w+`).FindString(run)
		runs[run]++
		result := "pass"
		if name == "FuzzTwo" || name == "FuzzLate" && runs[run] == 1 {
			result = "fail"
		}
		if name == "FuzzTwo" {
			found := filepath.Join(dir, "a/testdata/fuzz/FuzzTwo")
			if err := errors.Join(os.MkdirAll(found, 0o755), os.WriteFile(filepath.Join(found, "1"), nil, 0o600)); err != nil {
				t.Error(err)
			}
		}
		line([]byte(fmt.Sprintf(`{"Action":%q,"Package":"example.org/m/a","Test":%q}`, result, name)))
		line([]byte(fmt.Sprintf(`{"Action":%q,"Package":"example.org/m/a","Elapsed":1}`, result)))
		if result == "fail" {
			return errors.New("exit status 1")
		}
		return nil
	})
	want := map[string]int{}
	for name, times := range map[string]int{"FuzzOne": 1, "FuzzLate": 2, "FuzzTwo": 1} {
		want["-fuzztime=1s -parallel=1 -run=^$ -fuzz=^"+name+"$ example.org/m/a"] = times
	}
	if !maps.Equal(runs, want) {
		t.Errorf("runs %v", runs)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "FuzzTwo of example.org/m/a: ") || strings.Contains(err.Error(), "FuzzLate") {
		t.Errorf("ended with %v", err)
	}
	if passed, failed, _ := counted.totals(); passed != 3 || failed != 1 {
		t.Errorf("%d passed, %d failed", passed, failed)
	}
	if want := []string{"example.org/m/a:FuzzLate (fuzzed)"}; !slices.Equal(counted.second, want) {
		t.Errorf("passed at the second try: %v", counted.second)
	}
	if !strings.Contains(out.String(), "pass  example.org/m/a: FuzzOne, 1.0s\n") {
		t.Errorf("printed:\n%s", &out)
	}
	if err := fuzz([]string{"./b"}, counted, nil); err == nil {
		t.Error("no target is no error")
	}
}
