package page

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// axe-core finds what people who cannot see, or not well, or use no mouse, run into. Who raises
// the version takes the integrity from: npm view axe-core@VERSION dist.integrity
const (
	axeVersion   = "4.14.1"
	axeIntegrity = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axe is its script. It is fetched once and kept in the user's cache.
func axe(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cache, "plumb", "axe-core-"+axeVersion+".tgz")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = fetchAxe(t.Context(), file)
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if sum := sha512.Sum512(data); base64.StdEncoding.EncodeToString(sum[:]) != axeIntegrity {
		t.Fatalf("%s is not what was published: sha512 %x; remove it", file, sum)
	}
	script, err := member(strings.NewReader(string(data)), "package/axe.min.js")
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return script
}

// fetchAxe has npm fetch the package. It is there as a whole or not at all.
func fetchAxe(ctx context.Context, file string) ([]byte, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(file), "axe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	npm := exec.CommandContext(ctx, "npm", "pack", "--silent", "axe-core@"+axeVersion)
	npm.Dir = tmp
	if out, err := npm.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack axe-core: %w\n%s", err, out)
	}
	if err := os.Rename(filepath.Join(tmp, filepath.Base(file)), file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// member is a file of an archive.
func member(archive io.Reader, name string) (string, error) {
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if h.Name == name {
			text, err := io.ReadAll(files)
			return string(text), err
		}
	}
}

// violations are what axe finds wrong, each with the elements. It is told of what is visible.
const violations = `axe.run({ resultTypes: ['violations'] }).then((r) => r.violations.map((v) =>
  v.id + ' (' + v.help + '):' + v.nodes.slice(0, 5).map((n) => '\n  ' + n.html.slice(0, 200) + '\n    ' + n.failureSummary.replaceAll('\n', ' ')).join('')))`

// accessible reports what axe finds wrong.
func (p *page) accessible(what string) {
	p.t.Helper()
	for _, v := range run(p, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise)) {
		p.t.Errorf("%s: %s", what, v)
	}
}

// TestAccessible: axe finds nothing wrong in any view, light or dark; and it would find what is.
func TestAccessible(t *testing.T) {
	script := axe(t)
	p := visitShop(t)
	// The script comes by the debugger, which the policy of the page does not bind; the page
	// itself could not load it.
	eval[bool](p, script+"; true")
	for _, v := range views {
		v.show(p)
		for _, scheme := range []string{"light", "dark"} {
			p.prefer(scheme)
			p.accessible(v.name + ", " + scheme)
		}
	}
	eval[bool](p, `document.querySelector('#state').parentElement.replaceWith(document.querySelector('#state')), true`)
	if found := run(p, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise)); len(found) != 1 || !strings.HasPrefix(found[0], "select-name ") {
		t.Errorf("a field without a label: axe finds %q", found)
	}
}
