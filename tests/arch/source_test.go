package arch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPackagesAreDocumented: every package says in one sentence what it is.
func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range list(t, "./...") {
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command " + filepath.Base(p.ImportPath) + " "
		}
		if !strings.HasPrefix(p.Doc, want) && p.Name != "apiv1connect" {
			t.Errorf("%s: the comment of the package is %q, want it to begin with %q", p.short(), p.Doc, want)
		}
	}
}

func TestGofmt(t *testing.T) {
	for _, name := range files(t, ".go") {
		source := []byte(read(t, name))
		formatted, err := format.Source(source)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !bytes.Equal(source, formatted):
			t.Errorf("%s is not formatted: make fmt", name)
		}
	}
}

// TestNoInit: nothing happens because a package is imported.
func TestNoInit(t *testing.T) {
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, ".pb.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function", name)
			}
		}
	}
}

// TestLicense: the licence is the Apache License 2.0, to the letter.
func TestLicense(t *testing.T) {
	const apache2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
	sum := sha256.Sum256([]byte(read(t, "LICENSE")))
	if got := hex.EncodeToString(sum[:]); got != apache2 {
		t.Errorf("LICENSE has the digest %s, want %s", got, apache2)
	}
}

// strangers are words that have no place in the tree: paths of somebody's
// machine, hosts that packages come from, leftovers. They are written so that
// this file does not contain them.
var strangers = []*regexp.Regexp{
	regexp.MustCompile(`(^|[\s"'(=:])/(wor[k]|hom[e]/[a-z]+)/|(^|[\s(=:])/roo[t]/`),
	regexp.MustCompile(`(prox[y]|su[m])\.golang\.org|GOPROX[Y]|registr[y]\.npmjs|registr[y]-1\.docker|hu[b]\.docker\.com|ghc[r]\.io|qua[y]\.io`),
	regexp.MustCompile(`(?i)\b(helper|coding|sub)[ -]?agent[s]?\b|(coding|this|previous|earlier) sessio[n]\b|languag[e] model|\bA[I] assistant`),
	regexp.MustCompile(`\b(FIXM[E]|XX[X])\b|<<<<<<[<]|>>>>>>[>]`),
}

func TestNoStrangers(t *testing.T) {
	for _, name := range files(t) {
		text := read(t, name)
		if !utf8.ValidString(text) || name == "LICENSE" {
			continue
		}
		for n, line := range strings.Split(text, "\n") {
			for _, s := range strangers {
				if found := s.FindString(line); found != "" {
					t.Errorf("%s:%d: %q has no place here", name, n+1, found)
				}
			}
		}
	}
}
