// Command count runs go test and says at the end how many tests there were.
//
//	count ARGS [+ ARGS]...
//
// Each group of ARGS is one run of go test. The exit code is 1 if one of the
// runs fails; the others run nevertheless.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout))
}

func run(args []string, out io.Writer) int {
	t, code := newTally(out), 0
	for _, group := range groups(args) {
		if err := goTest(group, t); err != nil {
			fmt.Fprintf(out, "go test %s: %v\n", strings.Join(group, " "), err)
			code = 1
		}
	}
	passed, failed, skipped := t.totals()
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		code = 1
	}
	return code
}

// groups splits the arguments at each +.
func groups(args []string) [][]string {
	var all [][]string
	for len(args) > 0 {
		end := slices.Index(args, "+")
		if end < 0 {
			end = len(args)
		}
		all = append(all, args[:end])
		args = args[min(end+1, len(args)):]
	}
	return all
}

func goTest(args []string, t *tally) error {
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
			t.line(line)
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

// tally counts, and shows of each package a line and what its failures said.
type tally struct {
	out io.Writer
	// results holds pass, fail or skip of every test, under package and name.
	results map[[2]string]string
	// parents have subtests, which count in their place.
	parents map[[2]string]bool
	// said holds the output of what has not ended yet.
	said map[[2]string][]string
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, results: map[[2]string]string{}, parents: map[[2]string]bool{}, said: map[[2]string][]string{}}
}

func (t *tally) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		t.out.Write(line) // what a broken build or a test's child printed
		return
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
			t.packageEnds(e)
		} else {
			t.results[id] = e.Action
		}
		if e.Action == "fail" || e.Action == "skip" && e.Test != "" {
			fmt.Fprint(t.out, strings.Join(t.said[id], ""))
		}
		delete(t.said, id)
	}
}

func (t *tally) packageEnds(e event) {
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
		t.results[[2]string{e.Package, "(package)"}] = "fail"
	}
	fmt.Fprintf(t.out, "%-5s %s: %d tests, %.1fs\n", e.Action, e.Package, n, e.Elapsed)
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
