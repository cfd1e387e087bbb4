package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

const (
	mostFiles   = 22
	mostMethods = 60
)

// TestSizesOfTheScheduler: its packages stay so small that a reader can keep them in mind, see
// docs/decisions/0102.
func TestSizesOfTheScheduler(t *testing.T) {
	inPackage, ofType := map[string]int{}, map[string]int{}
	for _, name := range files(t, ".go") {
		dir := filepath.Dir(name)
		if !strings.HasPrefix(dir, "scheduler") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(dir, "test") {
			continue
		}
		inPackage[dir]++
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				ofType[dir+" "+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	for dir, n := range inPackage {
		if n > mostFiles {
			t.Errorf("%s has %d files: more than %d are several packages", dir, n, mostFiles)
		}
	}
	for name, n := range ofType {
		if n > mostMethods {
			t.Errorf("%s has %d methods: more than %d are several things", name, n, mostMethods)
		}
	}
}

// receiver is the name of a method's type, without pointer and type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
