package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// target is a function that is fuzzed.
type target struct{ pkg, name string }

// fuzz runs every fuzz target of the packages for a time, one after the other: each
// uses all processors. Flags are those of go test, -fuzztime among them. A new target
// needs no entry anywhere. What one finds it leaves below testdata/fuzz.
func fuzz(args []string, t *tally, goTest func([]string, *tally) error) error {
	given := flags(args)
	all, err := targets(without(slices.Clone(args), given))
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("there is no fuzz target")
	}
	var errs []error
	defer func() { t.fuzzed = "" }()
	for _, one := range all {
		t.fuzzed = one.name
		if err := goTest(append(slices.Clone(given), "-run=^$", "-fuzz=^"+one.name+"$", one.pkg), t); err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", one.name, one.pkg, err))
		}
	}
	return errors.Join(errs...)
}

// declared are fuzz targets as they stand in a file.
var declared = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)

// targets finds the fuzz targets in the sources of packages: to have their programs
// list them all would have to be built.
func targets(packages []string) (all []target, err error) {
	cmd := exec.Command("go", append([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles"}, packages...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	list := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			Dir, ImportPath           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
			source, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, m := range declared.FindAllSubmatch(source, -1) {
				all = append(all, target{p.ImportPath, string(m[1])})
			}
		}
	}
}
