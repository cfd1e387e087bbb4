package main

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestTally counts subtests in place of their parents, and packages that fail
// without a failing test.
func TestTally(t *testing.T) {
	var out strings.Builder
	tally := newTally(&out)
	for line := range strings.Lines(`{"Action":"run","Package":"a","Test":"TestOne"}
{"Action":"pass","Package":"a","Test":"TestOne","Elapsed":7}
{"Action":"run","Package":"a","Test":"TestTwo"}
{"Action":"run","Package":"a","Test":"TestTwo/x"}
{"Action":"run","Package":"a","Test":"TestTwo/y"}
{"Action":"output","Package":"a","Test":"TestTwo/y","Output":"what went wrong\n"}
{"Action":"pass","Package":"a","Test":"TestTwo/x"}
{"Action":"fail","Package":"a","Test":"TestTwo/y"}
{"Action":"fail","Package":"a","Test":"TestTwo","Elapsed":8.25}
{"Action":"run","Package":"a","Test":"TestThree"}
{"Action":"output","Package":"a","Test":"TestThree","Output":"the reason\n"}
{"Action":"skip","Package":"a","Test":"TestThree"}
{"Action":"fail","Package":"a","Elapsed":1.5}
{"Action":"skip","Package":"none"}
{"Action":"build-output","ImportPath":"b","Output":"b.go:1: no\n"}
{"Action":"build-fail","ImportPath":"b"}
{"Action":"output","Package":"b","Output":"FAIL b [build failed]\n"}
{"Action":"fail","Package":"b"}
`) {
		tally.line([]byte(line))
	}
	passed, failed, skipped := tally.totals()
	if passed != 2 || failed != 2 || skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped; want 2, 2, 1", passed, failed, skipped)
	}
	if got := tally.slowest(5); !slices.Equal(got, []string{"a: TestTwo, 8.2s", "a: TestOne, 7.0s"}) {
		t.Errorf("the slowest are %q", got)
	}
	for _, want := range []string{"what went wrong\n", "the reason\n", "b.go:1: no\n", "fail  a: 5 tests, 1.5s\n", "-     none: no test files\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestSplit(t *testing.T) {
	got := split(strings.Fields("-race ./a + -p 1 ./b"), "+")
	if len(got) != 2 || strings.Join(got[0], " ") != "-race ./a" || strings.Join(got[1], " ") != "-p 1 ./b" {
		t.Errorf("groups are %q", got)
	}
}

// TestBeside: the runs of a group have its flags, and may have own ones, and run at the same
// time; what one of them says of its failure is not lost.
func TestBeside(t *testing.T) {
	group := strings.Fields("-race -p=1 ./a ./b beside -run=^TestX$ ./c")
	runs := beside(group)
	if len(runs) != 2 || strings.Join(runs[0], " ") != "-race -p=1 ./a ./b" || strings.Join(runs[1], " ") != "-race -p=1 -run=^TestX$ ./c" {
		t.Fatalf("runs are %q", runs)
	}
	if given := flags(group); strings.Join(given, " ") != "-race -p=1" {
		t.Errorf("what is tried again has the flags %q", given)
	}
	if want := "-race -p=1 ./a ./b beside -run=^TestX$ ./c"; strings.Join(group, " ") != want {
		t.Errorf("the group has become %q", group)
	}
	if runs := beside([]string{"-race"}); len(runs) != 1 || strings.Join(runs[0], " ") != "-race" {
		t.Errorf("without packages, runs are %q", runs)
	}
	var both sync.WaitGroup
	both.Add(2)
	err := together(runs, nil, func(args []string, _ func([]byte)) error {
		both.Done()
		both.Wait() // each waits for the other one
		if slices.Contains(args, "./a") {
			return errors.New("no")
		}
		return nil
	})
	if err == nil || err.Error() != "no" {
		t.Errorf("they end with %v", err)
	}
}

// TestAgain: what passes at a second try counts as passed and is named, what fails
// twice fails, and what passed at first is not run again.
func TestAgain(t *testing.T) {
	counted := newTally(&strings.Builder{})
	say := func(lines string) {
		for line := range strings.Lines(lines) {
			counted.line([]byte(line))
		}
	}
	say(`{"Action":"pass","Package":"a","Test":"TestGood"}
{"Action":"run","Package":"a","Test":"TestLate/x"}
{"Action":"fail","Package":"a","Test":"TestLate/x"}
{"Action":"fail","Package":"a","Test":"TestLate"}
{"Action":"fail","Package":"a","Test":"TestBad"}
{"Action":"fail","Package":"a"}
{"Action":"fail","Package":"b"}
`)
	failed := counted.failed()
	if want := []string{"a:TestBad", "a:TestLate", "b:(package)"}; !slices.Equal(failed, want) {
		t.Fatalf("failed: %v, want %v", failed, want)
	}
	var runs []string
	err := tryAgain(flags([]string{"-race", "./..."}), failed, counted, func(args []string, _ func([]byte)) error {
		runs = append(runs, strings.Join(args, " "))
		if args[len(args)-1] == "b" {
			say(`{"Action":"pass","Package":"b","Test":"TestOnly"}` + "\n")
			return nil
		}
		say(`{"Action":"run","Package":"a","Test":"TestLate/x"}
{"Action":"pass","Package":"a","Test":"TestLate/x"}
{"Action":"pass","Package":"a","Test":"TestLate"}
{"Action":"fail","Package":"a","Test":"TestBad"}
`)
		return errors.New("exit status 1")
	})
	slices.Sort(runs)
	if want := []string{"-race -run=^(TestBad|TestLate)$ a", "-race b"}; !slices.Equal(runs, want) {
		t.Errorf("runs %q, want %q", runs, want)
	}
	slices.Sort(counted.second)
	if want := []string{"a:TestLate", "b:(package)"}; err == nil || !slices.Equal(counted.second, want) {
		t.Errorf("%v; second: %v, want %v", err, counted.second, want)
	}
	if passed, failed, _ := counted.totals(); passed != 3 || failed != 1 {
		t.Errorf("%d passed, %d failed", passed, failed)
	}
	if counted.mayTryAgain(1) {
		t.Errorf("a third test may be tried again after %q", counted.second)
	}
}
