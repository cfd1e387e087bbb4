package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Step is one thing that happens, in words: a command with arguments, and the
// lines that belong to it. See [Player.Do] for the commands.
type Step struct {
	Do    string
	Args  []string
	Lines []string
}

// Has reports whether the step has an argument.
func (s Step) Has(arg string) bool { return slices.Contains(s.Args, arg) }

// String is the step as ParseSteps reads it, and as stories are written.
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(strings.Join(append([]string{s.Do}, s.Args...), " "))
	for _, l := range s.Lines {
		b.WriteString("\n" + l)
	}
	b.WriteString("\n----\n\n")
	return b.String()
}

// oneLine is a step in one line, for the log of the World.
type oneLine struct{ *Step }

// String is the step in one line.
func (s oneLine) String() string {
	return strings.Join(append([]string{s.Do}, s.Args...), " ") + ": " + strings.Join(s.Lines, "; ")
}

// Script is steps as text.
func Script(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(s.String())
	}
	return b.String()
}

// ParseSteps reads a script or a story; what a story tells of the outcome is
// passed over.
func ParseSteps(text string) []Step {
	var out []Step
	var s *Step
	told := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			s, told = nil, false
		case told, s == nil && strings.HasPrefix(line, "#"):
		case line == "----":
			told = true
		case s == nil:
			words := strings.Fields(line)
			out = append(out, Step{Do: words[0], Args: words[1:]})
			s = &out[len(out)-1]
		default:
			s.Lines = append(s.Lines, line)
		}
	}
	return out
}

// ParseTxn reads a transaction. The arguments are the source, "revert",
// "complete", "owner", "note=…" and "retry=3:1s:10s" (attempts, first and longest delay);
// the lines are
//
//	key THING       what should be, see ParseThing
//	key -           nothing any more
//	key ?           a value that cannot be decoded
//	look key        a key or a prefix to be read
//	look all
func (s Step) ParseTxn(sources []string) (scheduler.Txn, error) {
	t := scheduler.Txn{Source: sources[0]}
	for _, a := range s.Args {
		note, noted := strings.CutPrefix(a, "note=")
		retry, retries := strings.CutPrefix(a, "retry=")
		switch {
		case retries:
			var err error
			if t.Retry, err = schedulertest.ParseRetries(retry); err != nil {
				return t, err
			}
		case noted:
			t.Note = note
		case a == "revert":
			t.Revert = true
		case a == "complete":
			t.Complete = true
		case a == "owner":
			t.ByOwner = true
		case a == "previewed":
			t.AsPreviewed = true
		case a != "result" && a != "nowait" && a != "planned" && a != "all":
			t.Source = a
		}
	}
	for _, l := range s.Lines {
		if err := parseChange(&t, strings.Fields(l)); err != nil {
			return t, err
		}
	}
	return t, nil
}

var errUndecodable = errors.New("it cannot be decoded")

func parseChange(t *scheduler.Txn, f []string) error {
	if len(f) < 2 {
		return fmt.Errorf("%q is no change", f)
	}
	k := scheduler.Key(f[0])
	switch {
	case f[0] == "look" && f[1] == "all":
		t.LookAll = true
	case f[0] == "look":
		t.Look = append(t.Look, scheduler.Key(f[1]))
	case f[1] == "-":
		t.Want = append(t.Want, scheduler.Withdraw(k))
	case f[1] == "?":
		t.Want = append(t.Want, scheduler.SetInvalid(k, errUndecodable))
	default:
		v, err := schedulertest.ParseThing(f[1:])
		if err != nil {
			return err
		}
		t.Want = append(t.Want, scheduler.Set(k, v))
	}
	return nil
}
