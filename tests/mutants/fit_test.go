package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// Every mutant of every list still fits the code: the text that it changes is
// there, once, and so is the test that must find it.
func TestMutantsFit(t *testing.T) {
	all, err := read("*.txt")
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t, all)
	for _, m := range all {
		for _, e := range m.edits {
			fits(t, m, e)
		}
		if m.kill == "" && m.room() != "scheduler" {
			t.Errorf("%s: outside of the engine a test must be named", m.name)
		}
		top, _, _ := strings.Cut(m.kill, "/")
		if m.kill != "" && !tests[m.kill] && (top == "TestStories" || !tests[top]) {
			t.Errorf("%s: there is no test %s", m.name, m.kill)
		}
	}
}

func fits(t *testing.T, m mutant, e edit) {
	t.Helper()
	code, err := os.ReadFile(filepath.Join(root, e.file))
	if err != nil {
		t.Errorf("%s: %v", m.name, err)
		return
	}
	if n := strings.Count(string(code), e.old); n != 1 {
		t.Errorf("%s: %s has this text %d times, it must be once:\n%s", m.name, e.file, n, e.old)
	}
	if e.old == e.new {
		t.Errorf("%s: it changes nothing", m.name)
	}
}

// testNames are the tests of the packages that have mutants, and their stories.
func testNames(t *testing.T, all []mutant) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	var files []string
	rooms := map[string]bool{}
	for _, m := range all {
		if !rooms[m.room()] {
			rooms[m.room()] = true
			files = append(files, matching(t, m.room()+"/*_test.go")...)
		}
	}
	for _, path := range files {
		code, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(code)) {
			if name, ok := strings.CutPrefix(line, "func Test"); ok {
				name, _, _ = strings.Cut(name, "(")
				names["Test"+name] = true
			}
		}
	}
	stories := slices.Concat(matching(t, "scheduler/testdata/*.txt"),
		matching(t, "plugins/container/testdata/stories/*.txt"), matching(t, "plugins/oom/testdata/stories/*.txt"))
	for _, path := range stories {
		names["TestStories/"+strings.TrimSuffix(filepath.Base(path), ".txt")] = true
	}
	return names
}

func matching(t *testing.T, glob string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, glob))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", glob, err)
	}
	return files
}

func TestParse(t *testing.T) {
	for list, want := range map[string]string{
		"file x":           "comes before the first mutant",
		"mutant a it\nfoo": "none of mutant, from, kill, file",
		"mutant a it":      "needs a title, from and a file",
		"mutant a it\nfrom b\nfile x\n<<<\nold\n===\nnew":                       "after file come",
		"mutant a it\nfrom b\nfile x\n<<<\no\n===\nn\n>>>\nmutant a it\nfrom b": "two mutants are called a",
		"# why\n\nmutant a it\nfrom b\nkill T/x\nfile x\n<<<\nold\n===\n\n>>>":  "",
	} {
		_, err := parse(list)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
}

// A sample is the same for the same seed, and what is drawn is Go.
func TestSample(t *testing.T) {
	ms, err := sample(filepath.Join(root, "scheduler"), 200, 7)
	if err != nil || len(ms) != 200 {
		t.Fatalf("%d mutants, error %v", len(ms), err)
	}
	again, _ := sample(filepath.Join(root, "scheduler"), 200, 7)
	for i, m := range ms {
		if m.name != again[i].name {
			t.Errorf("number %d is %s, and then %s", i, m.name, again[i].name)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), "", "package x\n"+m.edits[0].new, 0); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestFirstFailed(t *testing.T) {
	out := "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\n--- FAIL: TestB (0.00s)\n"
	if got := firstFailed(out); got != "TestA/x" {
		t.Errorf("the first that failed is %s, want TestA/x", got)
	}
}
