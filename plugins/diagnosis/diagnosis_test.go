package diagnosis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/diagnosis"
	"github.com/plumb-net/plumb/scheduler"
)

// TestCauses plays the causes of testdata/causes: each begins with a root and the facts
// around it, line by line, and ends with what is said of it.
//
//	KIND KEY [for=KEY] [by=KEY] [until=DURATION] [held-back=ID]   the root
//	{"key":…}                       a key, as get -o json has it; that of the root tells
//	                                its status
//	engine NAME STATE [reason]      a container runtime
//	end LABEL NAME CODE SIGNAL [oom | reason]
//	elsewhere LABEL                 another agent for which the key is written
//	shadow                          the agent does nothing, as it was started
func TestCauses(t *testing.T) {
	datadriven.RunTest(t, "testdata/causes", func(t *testing.T, d *datadriven.TestData) string {
		r, f, err := parse(d)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		found := diagnosis.Diagnose(r, f)
		if found.Advice == "" {
			t.Error("it does not say what to do")
		}
		return found.Text + "\n→ " + found.Advice + "\n"
	})
}

func parse(d *datadriven.TestData) (r scheduler.Root, f diagnosis.Facts, err error) {
	f.Label = "host1"
	kind := strings.ReplaceAll(d.Cmd, "_", " ")
	for r.Kind = 0; r.Kind.String() != kind; r.Kind++ {
	}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "for":
			r.For = scheduler.Key(a.Vals[0])
		case "by":
			r.By = scheduler.Key(a.Vals[0])
		case "held-back":
			r.HeldBack = a.Vals[0]
		case "until":
			after, err := time.ParseDuration(a.Vals[0])
			if err != nil {
				return r, f, err
			}
			r.Until = apitest.Noon().Add(after)
		default:
			r.Key = scheduler.Key(a.Key)
		}
	}
	r.Status.Key = r.Key
	for line := range strings.Lines(d.Input) {
		if err := fact(strings.TrimSpace(line), &r, &f); err != nil {
			return r, f, fmt.Errorf("%s: %w", line, err)
		}
	}
	if r.Text = string(r.Key) + " is not there"; r.Status.Reason != "" {
		r.Text = fmt.Sprintf("%s is %s: %s", r.Key, r.Status.State, r.Status.Reason)
	}
	return r, f, nil
}

func fact(line string, r *scheduler.Root, f *diagnosis.Facts) error {
	word := strings.Fields(line)
	switch word[0] {
	case "engine":
		f.Engines = append(f.Engines, models.Health{Name: word[1], State: word[2], Reason: strings.Join(word[3:], " "), Since: apitest.Noon()})
	case "end":
		code, err := strconv.Atoi(word[3])
		if err != nil {
			return err
		}
		signal, err := strconv.Atoi(word[4])
		end := diagnosis.End{Label: word[1], Name: word[2], At: apitest.Noon(), Code: code, Signal: signal, Reason: strings.Join(word[5:], " ")}
		if end.OutOfMemory = end.Reason == "oom"; end.OutOfMemory {
			end.Reason = ""
		}
		f.Ends = append(f.Ends, end)
		return err
	case "shadow":
		f.Shadow = true
	case "elsewhere":
		f.Elsewhere = append(f.Elsewhere, word[1])
	default:
		s, err := apitest.Status(line)
		if f.Keys = append(f.Keys, s); s.Key == r.Key {
			r.Status = s
		}
		return err
	}
	return nil
}
