package spec

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCodes: docs/cni.md tells of every code that we give, and of no other; our own
// begin at 100.
func TestCodes(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name != "NoContainer" {
			codes[v.Values[0].(*ast.BasicLit).Value] = true
		}
		return true
	})
	text, err := os.ReadFile("../../../docs/cni.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9, ]+) \|`).FindAllStringSubmatch(string(text), -1) {
		for code := range strings.SplitSeq(row[1], ", ") {
			told[code] = true
		}
	}
	if len(codes) < 10 {
		t.Fatalf("only %d codes were found", len(codes))
	}
	for code := range codes {
		if !told[code] {
			t.Errorf("docs/cni.md does not tell of code %s", code)
		}
	}
	for code := range told {
		if !codes[code] {
			t.Errorf("docs/cni.md tells of code %s, which is never given", code)
		}
	}
	// Those between the specification's and our own are not ours to give.
	for code := range codes {
		if len(code) == 2 && code != "11" && code != "50" && code != "51" {
			t.Errorf("code %s is reserved", code)
		}
	}
}
