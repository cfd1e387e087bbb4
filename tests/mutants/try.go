package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// verdict is what became of a mutant.
type verdict struct {
	killer string        // the first test that failed
	after  time.Duration // of testing, building not counted
	err    error         // the mutant could not be tried
}

// tiers are the tests, the quick ones first: what finds a bug early is run early.
func tiers() [][]string {
	return [][]string{
		{"-test.run", "TestStories"},
		{"-test.skip", "TestStories|Histories|Interruptions|SmallGraphs|Churn|TestSim"},
		{"-test.run", "SmallGraphs"},
		{"-test.run", "Histories|Interruptions", "-histories", histories},
	}
}

var histories = "4000" // in which what is left is looked for

// tierTime is when tests that do not end are ended. A story that waits for ever prints for
// ever that it does, and fills the memory with that, so stories have less time.
func tierTime(args []string) time.Duration {
	if args[0] == "-test.run" && strings.Contains(args[1], "TestStories") {
		return time.Minute
	}
	return 5 * time.Minute
}

// try builds the engine's tests with the mutant in place and runs them.
func try(m mutant) verdict {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return verdict{err: err}
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "scheduler.test")
	if err := build(m, dir, bin); err != nil {
		return verdict{err: err}
	}
	began := time.Now()
	for _, args := range chosen(m) {
		killer, err := killedBy(bin, m.room(), m.kill, args)
		if err != nil {
			return verdict{err: err}
		}
		if killer != "" {
			return verdict{killer: killer, after: time.Since(began)}
		}
	}
	return verdict{after: time.Since(began)}
}

func chosen(m mutant) [][]string {
	if m.kill == "" {
		return tiers()
	}
	parts := strings.Split(m.kill, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return [][]string{{"-test.run", strings.Join(parts, "/")}}
}

// build compiles the tests with the changed files in the place of the others.
func build(m mutant, dir, bin string) error {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, e := range m.edits {
		path, err := filepath.Abs(e.file)
		if err != nil {
			return err
		}
		from := path
		if changed := overlay.Replace[path]; changed != "" {
			from = changed
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return fmt.Errorf("%s has the text to change %d times, it must be once:\n%s", e.file, n, e.old)
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return err
		}
		overlay.Replace[path] = to
	}
	js, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, js, 0o600); err != nil {
		return err
	}
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", bin}
	if m.race() {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "./"+m.room())...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("it does not build: %s", out)
	}
	return nil
}

// room is the package whose tests must find the bug: the engine, or else the
// one that has it.
func (m mutant) room() string {
	dir := filepath.Dir(m.edits[0].file)
	switch { // what is inside is tested from outside
	case strings.HasPrefix(dir, "scheduler"):
		return "scheduler"
	case dir == "plugins/container/lifecycle":
		return "plugins/container"
	case dir == "plugins/cni/network":
		return "plugins/cni"
	}
	return dir
}

// race reports whether only the race detector can see the bug.
func (m mutant) race() bool { return strings.Contains(m.title, "race") }

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// killedBy runs some tests, of which only is the one, if it is not empty. It
// returns the innermost one that failed first.
func killedBy(bin, room, only string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tierTime(args))
	defer cancel()
	// Without a timer of its own the test ends at once when all of it waits.
	args = append(args, "-test.failfast", "-test.timeout", "0", "-test.count", "1")
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = room
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case err == nil && strings.Contains(text, "no tests to run"):
		return "", fmt.Errorf("no test matches %q", args[1])
	case err == nil:
		return "", nil
	case failed.MatchString(text):
		return firstFailed(text), nil
	case ctx.Err() != nil, strings.Contains(text, "it does not end"): // as the watchdog of histories says
		return named(only, "hangs"), nil
	case strings.Contains(text, "DATA RACE"):
		return named(only, "race"), nil
	case strings.Contains(text, "deadlock"):
		return named(only, "deadlock"), nil
	case strings.Contains(text, "panic:"), strings.Contains(text, "fatal error:"):
		return named(only, "crash"), nil
	default:
		return "", fmt.Errorf("the tests ended with %w:\n%s", err, out)
	}
}

// firstFailed is the most precise name of the first failure.
func firstFailed(text string) string {
	all := failed.FindAllStringSubmatch(text, -1)
	name := all[0][1]
	for _, f := range all {
		if strings.HasPrefix(f[1], name+"/") {
			name = f[1]
		}
	}
	return name
}

// named tells how a test ended that could not say so itself.
func named(test, how string) string {
	if test == "" {
		return "a test: " + how
	}
	return test + ": " + how
}
