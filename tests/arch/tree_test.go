package arch

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the top of the tree, seen from the tests.
const root = "../.."

const module = "github.com/plumb-net/plumb"

// pkg is what go list says of a package.
type pkg struct {
	ImportPath   string
	Name         string
	Doc          string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
	Module       struct{ Path string }
}

// short is the package's name without the module.
func (p pkg) short() string { return short(p.ImportPath) }

func short(path string) string { return strings.TrimPrefix(path, module+"/") }

func ours(path string) bool { return strings.HasPrefix(path, module+"/") }

// standard reports whether the package is one of the standard library.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func list(t *testing.T, patterns ...string) []pkg {
	t.Helper()
	out := command(t, "go", append([]string{"list", "-json=ImportPath,Name,Doc,Imports,TestImports,XTestImports,Deps"}, patterns...)...)
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func command(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// files are all files of the tree that end so, by their path from the root;
// everything if no ending is given. What is built and fetched is left out.
func files(t *testing.T, endings ...string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && slices.Contains([]string{".git", ".cache", "bin"}, name):
			return filepath.SkipDir
		case d.Type().IsRegular() && (len(endings) == 0 || slices.Contains(endings, filepath.Ext(name))):
			all = append(all, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
