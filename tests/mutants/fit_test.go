package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every mutant still fits the code: the text that it changes is there, once.
func TestMutantsFit(t *testing.T) {
	text, err := os.ReadFile("mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		for _, e := range m.edits {
			code, err := os.ReadFile(filepath.Join("../..", e.file))
			if err != nil {
				t.Errorf("%s: %v", m.name, err)
				continue
			}
			if n := strings.Count(string(code), e.old); n != 1 {
				t.Errorf("%s: %s has this text %d times, it must be once:\n%s", m.name, e.file, n, e.old)
			}
		}
	}
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
