// Command mutants puts known bugs back into the engine, one at a time, and
// shows that the tests find each of them. The bugs are real ones: those of
// other engines, and our own. A mutant that no test kills is a hole in the
// tests, and the command fails.
//
//	go run ./tests/mutants [-only NAME] [-jobs N] [-list GLOB]
//	go run ./tests/mutants -sample N [-seed S] [-in FOLDER] [-histories N]
//
// The second form draws mutants from the syntax trees of a folder. Not every one is a bug:
// those that survive are to be read.
//
// The lists are the *.txt beside this file; see parse.go for their form.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

func main() {
	only := flag.String("only", "", "run the mutants whose name begins so")
	jobs := flag.Int("jobs", 2, "how many at once")
	list := flag.String("list", "tests/mutants/*.txt", "the lists of mutants")
	draw := flag.Int("sample", 0, "draw that many mutants from the syntax trees instead")
	seed := flag.Uint64("seed", 1, "of the sample")
	in := flag.String("in", "scheduler", "the folder that the sample is drawn from")
	flag.StringVar(&histories, "histories", histories, "how many random histories the last tests play")
	flag.Parse()
	var err error
	if *draw > 0 {
		err = runSample(*in, *draw, *seed, *jobs)
	} else {
		err = run(*list, *only, *jobs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(list, only string, jobs int) error {
	all, err := read(list)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range all {
		if strings.HasPrefix(m.name, only) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("%s has no mutant whose name begins with %q", list, only)
	}
	return report(chosen, tryAll(chosen, jobs))
}

// runSample tries a sample. What does not build is no mutant.
func runSample(dir string, n int, seed uint64, jobs int) error {
	ms, err := sample(dir, n, seed)
	if err != nil {
		return err
	}
	var built []mutant
	var verdicts []verdict
	for i, v := range tryAll(ms, jobs) {
		if v.err == nil {
			built, verdicts = append(built, ms[i]), append(verdicts, v)
		}
	}
	return report(built, verdicts)
}

// tryAll runs the mutants and prints a line for each as it ends.
func tryAll(ms []mutant, jobs int) []verdict {
	out := make([]verdict, len(ms))
	show := newTable(ms)
	var mu sync.Mutex
	var all sync.WaitGroup
	free := make(chan struct{}, jobs)
	for i, m := range ms {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			v := try(m)
			mu.Lock()
			defer mu.Unlock()
			out[i] = v
			fmt.Println(show.line(m, v))
		})
	}
	all.Wait()
	return out
}

// table is how wide the columns are.
type table struct{ name, killer int }

func newTable(ms []mutant) table {
	t := table{killer: len("TestStories/B01_false_success")}
	for _, m := range ms {
		t.name, t.killer = max(t.name, len(m.name)), max(t.killer, len(m.kill))
	}
	return t
}

// line tells what became of a mutant: its name, the seconds until a test found
// it, which test that was, and where the bug is known from.
func (t table) line(m mutant, v verdict) string {
	switch {
	case v.err != nil:
		return fmt.Sprintf("%-*s  ERROR     %v", t.name, m.name, v.err)
	case v.killer == "":
		return fmt.Sprintf("%-*s  SURVIVED  %s (%s)", t.name, m.name, m.title, m.from)
	}
	return fmt.Sprintf("%-*s  killed  %5.1f s  %-*s  %s", t.name, m.name,
		v.after.Round(100*time.Millisecond).Seconds(), t.killer, v.killer, m.from)
}

func report(ms []mutant, vs []verdict) error {
	killed := 0
	var alive []string
	for i, v := range vs {
		if v.err == nil && v.killer != "" {
			killed++
		} else {
			alive = append(alive, ms[i].name)
		}
	}
	fmt.Printf("\n%d of %d mutants killed\n", killed, len(ms))
	if len(alive) > 0 {
		return fmt.Errorf("not killed: %s", strings.Join(alive, ", "))
	}
	return nil
}
