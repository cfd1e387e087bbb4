package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// modules makes files, and a package of a module for each directory: "a.org/one v1" is the
// module, and what stands behind it the package within.
func modules(t *testing.T, files map[string]string, dirs ...string) (all []linkedPackage) {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range dirs {
		name, within, _ := strings.Cut(dir, "//")
		p := linkedPackage{Dir: filepath.Join(root, name, within)}
		if name == "go" {
			p.Standard = true
		} else {
			p.Module = &struct {
				Path, Version, Dir string
				Main               bool
			}{Path: name, Version: "v1", Dir: filepath.Join(root, name), Main: name == "ours"}
		}
		all = append(all, p)
	}
	return append(all, linkedPackage{Dir: filepath.Join(root, "go"), Standard: true})
}

// collected is what comes of them, or why nothing does.
func collected(packages []linkedPackage) string {
	found, err := collect(packages, packages[len(packages)-1].Dir)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(found.String(), strings.Repeat("=", 80), "==")
}

func TestNotices(t *testing.T) {
	files := map[string]string{
		"go/LICENSE": "Go\n", "a.org/one/LICENSE": "  Free\r\nfor all\r\n", "a.org/two/License.txt": "  Free\nfor all\n\n",
		"a.org/two/NOTICE": "By Two\n", "a.org/two/deep/inner/COPYING": "Deep\n", "a.org/two/deep/p.go": "", "a.org/two/other/LICENSE": "Not linked\n",
		"a.org/one/license.go": "package one\n", "ours/LICENSE": "Ours\n", "go/fmt/print.go": "",
	}
	got := collected(modules(t, files, "a.org/two//deep/inner", "a.org/one", "a.org/two", "ours", "go//fmt"))
	const want = `The programs of Plumb contain software of others, which comes under the terms below.

==
a.org/one v1
a.org/two v1

  Free
for all

==
a.org/two v1

By Two

==
a.org/two v1

Deep

==
the standard library of Go

Go
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	delete(files, "a.org/one/LICENSE")
	if got := collected(modules(t, files, "a.org/one")); got != "a.org/one v1 has no licence" {
		t.Error(got)
	}
	delete(files, "go/LICENSE")
	if got := collected(modules(t, files, "a.org/two")); got != "the standard library of Go has no licence" {
		t.Error(got)
	}
	files[goAuthors+"/LICENSE"] = "Go, elsewhere\n"
	if got := collected(modules(t, files, goAuthors)); !strings.Contains(got, "\n"+goAuthors+" v1\nthe standard library of Go\n\nGo, elsewhere\n") {
		t.Error(got)
	}
}
