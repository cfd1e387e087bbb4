// Command count runs go test and says at the end how many tests there were.
//
//	count [again|fuzz] ARGS [+ [again|fuzz] ARGS]...
//
// Each group of ARGS is one run of go test; flags are written as -name=value. The
// exit code is 1 if one of the runs fails; the others run nevertheless. The slowest tests
// are named at the end. The word beside between packages makes two runs of a group, at the same
// time, see docs/decisions/0138-what-waits-runs-beside-what-works.md. Flags before the first
// package are those of all runs; what follows may begin with further ones of its own.
//
// What fails in a group that begins with again is tried once more, by itself, and
// named at the end if it passes then: see docs/decisions/0055-tried-twice.md. At most two tests of
// all groups are tried again: if more fail, the exit code is 1. A group
// that begins with fuzz runs the fuzz targets of its packages, two packages at a time.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout))
}

func run(args []string, out io.Writer) int {
	t, code := newTally(out), 0
	for _, group := range split(args, "+") {
		again := len(group) > 0 && group[0] == "again"
		if again {
			group = group[1:]
		}
		before := t.failed()
		var err error
		if len(group) > 0 && group[0] == "fuzz" {
			err = fuzz(group[1:], t, goTest)
		} else {
			err = together(beside(group), t.line, goTest)
		}
		if failed := without(t.failed(), before); err != nil && again && 0 < len(failed) && t.mayTryAgain(len(failed)) {
			fmt.Fprintf(out, "once more: %s\n", strings.Join(failed, " "))
			err = tryAgain(flags(group), failed, t, goTest)
		}
		if err != nil {
			fmt.Fprintf(out, "go test %s: %v\n", strings.Join(group, " "), err)
			code = 1
		}
	}
	passed, failed, skipped := t.totals()
	if n := len(t.second); n > 0 {
		fmt.Fprintf(out, "%d of at most %d passed at the second try only: %s\n", n, maxSecond, strings.Join(t.second, " "))
	}
	for _, line := range t.slowest(10) {
		fmt.Fprintf(out, "slow  %s\n", line)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		code = 1
	}
	return code
}

// maxSecond is how many tests may pass at their second try in all groups.
const maxSecond = 2

// flags are those before the first package.
func flags(args []string) []string {
	first := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if first < 0 {
		return args
	}
	return args[:first:first]
}

// without is what of a list is not in another.
func without(list, other []string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return slices.Contains(other, s) })
}

// tryAgain runs tests once more, each package by itself, and notes which pass now.
func tryAgain(flags, failed []string, t *tally, goTest runner) (err error) {
	for pkg, tests := range byPackage(failed) {
		args := slices.Clone(flags)
		if !slices.Contains(tests, whole) {
			args = append(args, "-run=^("+strings.Join(tests, "|")+")$")
		}
		t.forget(pkg, tests)
		err = errors.Join(err, goTest(append(args, pkg), t.line))
	}
	t.second = append(t.second, without(failed, t.failed())...)
	return err
}

// whole stands for a package that failed without a failing test of its own.
const whole = "(package)"

// byPackage splits names as failed gives them.
func byPackage(names []string) map[string][]string {
	all := map[string][]string{}
	for _, name := range names {
		pkg, test, _ := strings.Cut(name, ":")
		all[pkg] = append(all[pkg], test)
	}
	return all
}

// split cuts a list at each word that is the mark.
func split(list []string, mark string) (parts [][]string) {
	for len(list) > 0 {
		end := slices.Index(list, mark)
		if end < 0 {
			end = len(list)
		}
		parts = append(parts, list[:end])
		list = list[min(end+1, len(list)):]
	}
	return parts
}

// beside are the arguments of the runs of a group: each has the flags of the group, then its own.
func beside(group []string) (runs [][]string) {
	given := flags(group)
	packages := group[len(given):]
	if len(packages) == 0 {
		return [][]string{given} // of the package in this directory
	}
	for _, list := range split(packages, "beside") {
		runs = append(runs, slices.Concat(given, list))
	}
	return runs
}

// together makes runs at the same time, and waits for all of them.
func together(runs [][]string, line func([]byte), goTest runner) error {
	errs := make([]error, len(runs))
	var running sync.WaitGroup
	for i, args := range runs {
		running.Go(func() { errs[i] = goTest(args, line) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// runner runs go test and hands on each line that it prints.
type runner func(args []string, line func([]byte)) error

func goTest(args []string, to func([]byte)) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			to(line)
		}
		if err != nil {
			break
		}
	}
	return cmd.Wait()
}

// event is a line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of builds
	Test       string
	Elapsed    float64
	Output     string
}

// tally counts, and shows of each package a line and what its failures said. Lines of
// several runs may come at the same time.
type tally struct {
	mu  sync.Mutex
	out io.Writer
	// results holds pass, fail or skip of every test, under package and name.
	results map[[2]string]string
	// parents have subtests, which count in their place.
	parents map[[2]string]bool
	// took is how many seconds a test with all below it took.
	took map[[2]string]float64
	// said holds the output of what has not ended yet.
	said map[[2]string][]string
	// second are those that passed when they were tried again.
	second []string
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, results: map[[2]string]string{}, parents: map[[2]string]bool{}, took: map[[2]string]float64{}, said: map[[2]string][]string{}}
}

func (t *tally) line(line []byte) { t.fuzzLine("", line) }

// fuzzLine takes a line of a run that fuzzes a target, which counts beside its test.
func (t *tally) fuzzLine(target string, line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		t.out.Write(line) // what a broken build or a test's child printed
		return
	}
	if e.Test != "" && target != "" {
		e.Test += fuzzed
	}
	id := [2]string{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.out, e.Output)
	case "run":
		for i := range len(e.Test) {
			if e.Test[i] == '/' {
				t.parents[[2]string{e.Package, e.Test[:i]}] = true
			}
		}
	case "output":
		t.said[id] = append(t.said[id], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.packageEnds(e, target)
		} else {
			t.results[id], t.took[id] = e.Action, e.Elapsed
		}
		if e.Action == "fail" || e.Action == "skip" && e.Test != "" {
			fmt.Fprint(t.out, strings.Join(t.said[id], ""))
		}
		delete(t.said, id)
	}
}

func (t *tally) packageEnds(e event, target string) {
	n, failed := 0, false
	for id, result := range t.results {
		if id[0] == e.Package {
			n++
			failed = failed || result == "fail"
		}
	}
	switch {
	case e.Action == "skip":
		fmt.Fprintf(t.out, "-     %s: no test files\n", e.Package)
		return
	case e.Action == "fail" && !failed:
		// It did not build, or ended before its time: that is a failure as well.
		for id := range t.said {
			if id[0] == e.Package && id[1] != "" {
				fmt.Fprint(t.out, strings.Join(t.said[id], ""))
				delete(t.said, id)
			}
		}
		t.results[[2]string{e.Package, whole}] = "fail"
	}
	if target != "" {
		fmt.Fprintf(t.out, "%-5s %s: %s, %.1fs\n", e.Action, e.Package, target, e.Elapsed)
		return
	}
	fmt.Fprintf(t.out, "%-5s %s: %d tests, %.1fs\n", e.Action, e.Package, n, e.Elapsed)
}

// slowest are the tests that took longest, without subtests: where to look when all of it
// takes too long.
func (t *tally) slowest(n int) (lines []string) {
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(t.took)), func(id [2]string) bool {
		return strings.Contains(id[1], "/") || t.took[id] < 1
	})
	slices.SortFunc(ids, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(t.took[b], t.took[a]), cmp.Compare(a[0]+a[1], b[0]+b[1]))
	})
	for _, id := range ids[:min(n, len(ids))] {
		lines = append(lines, fmt.Sprintf("%s: %s, %.1fs", id[0], id[1], t.took[id]))
	}
	return lines
}

// failed are the tests that failed, as package:test, without subtests.
func (t *tally) failed() (names []string) {
	for id, result := range t.results {
		if result == "fail" && !strings.Contains(id[1], "/") {
			names = append(names, id[0]+":"+id[1])
		}
	}
	slices.Sort(names)
	return names
}

// forget drops the results of tests, and of all that are below them.
func (t *tally) forget(pkg string, tests []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.results, func(id [2]string, _ string) bool {
		top, _, _ := strings.Cut(id[1], "/")
		return id[0] == pkg && (slices.Contains(tests, top) || slices.Contains(tests, whole))
	})
}

// mayTryAgain reports whether so many more tests may be tried again.
func (t *tally) mayTryAgain(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.second)+n <= maxSecond
}

func (t *tally) atSecond(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.second = append(t.second, name)
}

// totals counts tests without subtests, and those that fail by themselves.
func (t *tally) totals() (passed, failed, skipped int) {
	failedBelow := map[[2]string]bool{}
	for id, result := range t.results {
		for i := range len(id[1]) {
			if result == "fail" && id[1][i] == '/' {
				failedBelow[[2]string{id[0], id[1][:i]}] = true
			}
		}
	}
	for id, result := range t.results {
		switch {
		case result == "fail" && !failedBelow[id]:
			failed++
		case t.parents[id]:
		case result == "pass":
			passed++
		case result == "skip":
			skipped++
		}
	}
	return passed, failed, skipped
}
