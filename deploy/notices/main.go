// Command notices prints the licences of all that others wrote and that is linked into
// programs, and their notices, as who passes the programs on has to.
//
//	notices PACKAGE...
//
// The texts come from the modules as they were built, so there is no list to be kept. A
// module without a licence is an error.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(packages []string, out io.Writer) error {
	linked, err := linkedInto(packages)
	if err != nil {
		return err
	}
	root, err := goCommand("env", "GOROOT")
	if err != nil {
		return err
	}
	found, err := collect(linked, strings.TrimSpace(string(root)))
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, found.String())
	return err
}

// linkedPackage is what `go list` tells of a package.
type linkedPackage struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
	}
}

func linkedInto(packages []string) (all []linkedPackage, err error) {
	out, err := goCommand(append([]string{"list", "-deps", "-json=Dir,Standard,Module"}, packages...)...)
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p linkedPackage
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func goCommand(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// notices are texts, and who has each.
type notices map[string][]string

// legal are the names of files that are to be passed on.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([.-]|$)`)

// goAuthors have modules with the licence of their standard library, which some
// distributions leave out of the latter.
const goAuthors = "golang.org/x/sys"

// collect reads what the modules of packages have beside these and above them. goRoot is
// where the standard library is.
func collect(packages []linkedPackage, goRoot string) (notices, error) {
	all, read := notices{}, map[string]bool{}
	library := "the standard library of Go"
	if err := all.read(library, goRoot); err != nil {
		return nil, err
	}
	for _, p := range packages {
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		who := p.Module.Path + " " + p.Module.Version
		for dir := p.Dir; !read[dir]; dir = filepath.Dir(dir) {
			read[dir] = true
			if err := all.read(who, dir); err != nil {
				return nil, err
			}
			if dir == p.Module.Dir {
				break
			}
		}
		if p.Module.Path == goAuthors && !all.has(library) {
			if err := all.read(library, p.Module.Dir); err != nil {
				return nil, err
			}
		}
		if !all.has(who) {
			return nil, errors.New(who + " has no licence")
		}
	}
	if !all.has(library) {
		return nil, errors.New(library + " has no licence")
	}
	return all, nil
}

// read takes what is in a directory.
func (n notices) read(who, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() || !legal.MatchString(f.Name()) || filepath.Ext(f.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		key := strings.Trim(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
		if !slices.Contains(n[key], who) {
			n[key] = append(n[key], who)
		}
	}
	return nil
}

func (n notices) has(who string) bool {
	for _, of := range n {
		if slices.Contains(of, who) {
			return true
		}
	}
	return false
}

// String has each text once, below the names of all that it is of.
func (n notices) String() string {
	for _, of := range n {
		slices.Sort(of)
	}
	texts := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		return cmp.Or(slices.Compare(n[a], n[b]), cmp.Compare(a, b))
	})
	var b strings.Builder
	b.WriteString("The programs of Plumb contain software of others, which comes under the terms below.\n")
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(n[text], "\n"), text)
	}
	return b.String()
}
