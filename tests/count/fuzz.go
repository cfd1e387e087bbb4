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
	"sync"
)

// target is a function that is fuzzed. What it finds go test writes to a file in corpus.
type target struct{ pkg, name, corpus string }

// fuzzed marks the results of a target apart from those of the test that it is as well.
const fuzzed = " (fuzzed)"

// atOnce is how many packages are fuzzed at the same time, each on one processor.
const atOnce = 2

// fuzz runs every fuzz target of the packages for a time. Flags are those of go test,
// -fuzztime among them. A new target needs no entry anywhere. What one finds it leaves
// below testdata/fuzz.
func fuzz(args []string, t *tally, goTest runner) error {
	given := flags(args)
	all, err := targets(without(slices.Clone(args), given))
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("there is no fuzz target")
	}
	programs := byProgram(all)
	errs := make([]error, len(programs))
	var running sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i, program := range programs {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			for _, one := range program {
				if err := one.run(given, t, goTest); err != nil {
					errs[i] = errors.Join(errs[i], fmt.Errorf("%s of %s: %w", one.name, one.pkg, err))
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// byProgram cuts a list of targets into those of each package, which run one after the other:
// beside each other both would compile the package and all that it imports.
func byProgram(all []target) (programs [][]target) {
	for i, one := range all {
		if i == 0 || one.pkg != all[i-1].pkg {
			programs = append(programs, nil)
		}
		last := len(programs) - 1
		programs[last] = append(programs[last], one)
	}
	return programs
}

// run fuzzes. A target that fails and has found nothing is fuzzed once more: when
// -fuzztime is over go test says now and then "context deadline exceeded" of a target
// that had not ended yet (golang/go#75804). What finds something leaves a file.
func (one target) run(given []string, t *tally, goTest runner) error {
	args := append(slices.Clone(given), "-parallel=1", "-run=^$", "-fuzz=^"+one.name+"$", one.pkg)
	line := func(text []byte) { t.fuzzLine(one.name, text) }
	before := one.findings()
	err := goTest(args, line)
	if err == nil || one.findings() != before || !t.mayTryAgain(1) {
		return err
	}
	t.forget(one.pkg, []string{one.name + fuzzed})
	if err := goTest(args, line); err != nil {
		return err
	}
	t.atSecond(one.pkg + ":" + one.name + fuzzed)
	return nil
}

// findings counts the files of a target's corpus.
func (one target) findings() int {
	files, _ := os.ReadDir(one.corpus)
	return len(files)
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
				all = append(all, target{p.ImportPath, string(m[1]), filepath.Join(p.Dir, "testdata/fuzz", string(m[1]))})
			}
		}
	}
}
