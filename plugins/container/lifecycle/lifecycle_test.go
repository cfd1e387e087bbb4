package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// transitions are the methods that change a lifecycle, in the order of the table.
var transitions = []struct {
	name string
	call func(l *Lifecycle)
}{
	{"Begin", func(l *Lifecycle) { l.Begin(Run{StartedAt: l.Run.StartedAt.Add(time.Minute), Pid: l.Run.Pid + 1}) }},
	{"Pause", (*Lifecycle).Pause},
	{"Resume", (*Lifecycle).Resume},
	{"End", func(l *Lifecycle) { l.End(noon, "its process ended") }},
	{"RecordExit", func(l *Lifecycle) { l.RecordExit(Exit{Code: 1}) }},
	{"Amend", func(l *Lifecycle) { l.Amend(Exit{Code: 137}) }},
}

// paths lead to each state.
var paths = map[State][]string{
	Never: nil, Running: {"Begin"}, Paused: {"Begin", "Pause"}, Ending: {"Begin", "End"}, Ended: {"Begin", "End", "RecordExit"},
}

func (l *Lifecycle) do(name string) {
	for _, t := range transitions {
		if t.name == name {
			t.call(l)
		}
	}
}

// TestTransitions walks from every state by every method, and compares that with the table
// in the package's documentation.
func TestTransitions(t *testing.T) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, tr := range transitions {
		fmt.Fprint(w, "\t"+tr.name)
	}
	for s := Never; s <= Ended; s++ {
		fmt.Fprint(w, "\n"+s.String())
		for _, tr := range transitions {
			var l Lifecycle
			for _, step := range paths[s] {
				l.do(step)
			}
			before := l
			tr.call(&l)
			if before.State != s {
				t.Fatalf("%v does not lead to %v, but to %v", paths[s], s, before.State)
			}
			if reflect.DeepEqual(before, l) {
				fmt.Fprint(w, "\t-")
			} else {
				fmt.Fprint(w, "\t"+l.State.String())
			}
		}
	}
	_ = w.Flush()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if !strings.Contains(string(doc), "//\t"+strings.TrimSpace(line)+"\n") && !strings.Contains(string(doc), "//\t"+strings.TrimRight(line, "\n")+"\n") {
			t.Errorf("the documentation lacks\n%s", line)
		}
	}
}

// TestInvariants: whatever is called, in whatever order, what belongs to one state is there
// in that state only.
func TestInvariants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var l Lifecycle
		var calls []string
		for range 40 {
			tr, before := transitions[rnd.IntN(len(transitions))], l
			tr.call(&l)
			calls = append(calls, tr.name)
			over := l.State == Ending || l.State == Ended
			switch {
			case l.Began() != !l.Run.StartedAt.IsZero():
				t.Fatalf("%v: %v", calls, l.String())
			case l.State != Ended && l.Exit != (Exit{}), l.State == Ended && l.Exit == (Exit{}):
				t.Fatalf("%v: %v with the exit %+v", calls, l.String(), l.Exit)
			case !over && !l.Noticed.IsZero(), l.State == Ending && l.Noticed.IsZero():
				t.Fatalf("%v: %v, noticed at %v", calls, l.String(), l.Noticed)
			case tr.name == "Begin" && l.Before != Finished{before.Run, before.Exit}:
				t.Fatalf("%v: before it was %+v", calls, l.Before)
			case len(l.past) > mostPast:
				t.Fatalf("%d runs are remembered", len(l.past))
			case l.Began() && l.Stale(Answer{Running: true, StartedAt: l.Run.StartedAt}) != over:
				t.Fatalf("%v: %v: an answer that it runs", calls, l.String())
			case before.State == Ended && before.Run != l.Run && !l.Stale(Answer{StartedAt: before.Run.StartedAt}):
				t.Fatalf("%v: an answer of the run before is believed", calls)
			}
		}
	}
}

// TestString: a lifecycle says its state and what belongs to it.
func TestString(t *testing.T) {
	for s, want := range map[State]string{
		Never: "never", Running: "running pid=1", Paused: "paused pid=1", Ending: `ending pid=1 why="its process ended"`, Ended: "ended pid=1 exit=1",
	} {
		var l Lifecycle
		for _, step := range paths[s] {
			l.do(step)
		}
		if l.String() != want {
			t.Errorf("%s, want %s", l.String(), want)
		}
	}
}
