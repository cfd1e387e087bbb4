package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// sample draws mutants from the syntax trees of all files below a folder: a condition is
// negated, "and" becomes "or" and the reverse, or a call whose result nobody uses is left
// out. What only tests run is passed over, and calls that only save time or memory. The same
// seed draws the same mutants of the same tree.
func sample(dir string, n int, seed uint64) ([]mutant, error) {
	var all []mutant
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test") || d.Name() == "sim"):
			return filepath.SkipDir // tests, and what they are made with
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || d.Name() == "audit.go":
			return nil
		}
		found, err := mutantsOf(path)
		all = append(all, found...)
		return err
	})
	if err != nil {
		return nil, err
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))], nil
}

// mutantsOf are all that can be drawn of one file.
func mutantsOf(path string) ([]mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	d := drawer{path: path, text: string(text), set: set}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
			d.function = f
			ast.Inspect(f.Body, d.visit)
		}
	}
	return d.out, nil
}

// drawer finds what can be changed in one function after another.
type drawer struct {
	path, text string
	set        *token.FileSet
	function   *ast.FuncDecl
	out        []mutant
}

func (d *drawer) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		d.add(n.Cond, "negated", "!("+d.of(n.Cond)+")")
	case *ast.BinaryExpr:
		swapped := map[token.Token]string{token.LAND: "||", token.LOR: "&&"}[n.Op]
		if swapped != "" {
			d.add(n, "and for or", d.of(n.X)+" "+swapped+" "+d.of(n.Y))
		}
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && !thrifty[nameOf(call)] {
			d.add(n, "left out", "")
		}
	}
	return true
}

// thrifty are functions that nobody misses: they make room, let go of what is used up, or
// stop a program that is broken already.
var thrifty = map[string]bool{"clear": true, "grow": true, "Grow": true, "panic": true}

// nameOf is the last part of the name of what is called.
func nameOf(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func (d *drawer) at(p token.Pos) int { return d.set.Position(p).Offset }

func (d *drawer) of(n ast.Node) string { return d.text[d.at(n.Pos()):d.at(n.End())] }

// add puts new in the place of a node. The text that is replaced is that of the function,
// which is in the file once.
func (d *drawer) add(n ast.Node, what, new string) {
	from, to := d.at(d.function.Pos()), d.at(d.function.End())
	at := d.set.Position(n.Pos())
	old := strings.Join(strings.Fields(d.of(n)), " ")
	if len(old) > 60 {
		old = old[:60] + "…"
	}
	d.out = append(d.out, mutant{
		name:  fmt.Sprintf("%s:%d:%d %s", d.path, at.Line, at.Column, what),
		title: fmt.Sprintf("%s: %s", what, old),
		from:  "the syntax tree",
		edits: []edit{{file: d.path, old: d.text[from:to], new: d.text[from:d.at(n.Pos())] + new + d.text[d.at(n.End()):to]}},
	})
}
