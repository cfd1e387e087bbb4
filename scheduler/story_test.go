package scheduler_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/internal/sim"
)

// Each file of testdata tells one story in commands; `go test -run
// TestStories/name -rewrite` writes what came of them. After every command
// that may do something stand the operations in their order, then the keys
// whose state or reason changed.
func TestStories(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	scheduler.Audit(true)
	defer scheduler.Audit(false)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &story{Player: sim.NewPlayer(), t: t}
				defer s.end()
				datadriven.RunTest(t, path, s.command)
			})
		})
	}
}

// story is one World and one scheduler, told what to do line by line, in the
// language of schedulertest.
type story struct {
	*sim.Player
	t       *testing.T
	shown   int // lines of the World's log that were shown
	states  map[scheduler.Key]string
	watcher *scheduler.Watcher
}

// command runs one directive.
func (st *story) command(_ *testing.T, d *datadriven.TestData) string {
	step := sim.Step{Do: d.Cmd}
	if d.Input != "" {
		step.Lines = strings.Split(strings.TrimSpace(d.Input), "\n")
	}
	for _, a := range d.CmdArgs {
		step.Args = append(step.Args, a.String())
	}
	switch d.Cmd {
	case "setup":
		st.shown, st.states, st.watcher = 0, nil, nil
	case "restart":
		st.states = nil
	case "txn":
		return st.txn(step)
	case "plan":
		return st.plan(step)
	case "register":
		if err := st.Do(step); err != nil {
			return err.Error() + "\n"
		}
		return st.outcome()
	case "letgo":
		if err := st.LetGo(d.CmdArgs[0].Key); err != nil {
			return err.Error() + "\n"
		}
		return st.outcome()
	case "fault", "release", "wait", "pause", "resume", "retry", "unregister", "put", "take", "foreign", "change", "speak", "heal":
	default:
		return st.show(d.Cmd, step.Args)
	}
	st.check(st.Do(step))
	if d.Cmd == "fault" || step.Has("nowait") {
		return ""
	}
	return st.outcome()
}

func (st *story) check(err error) {
	st.t.Helper()
	if err != nil {
		st.t.Fatal(err)
	}
}

func (st *story) end() {
	st.check(st.Close())
}

// patience is how long a story waits for a transaction: longer than any that settles.
const patience = 10 * time.Minute

func (st *story) txn(step sim.Step) string {
	if !step.Has("result") && !step.Has("planned") {
		st.check(st.Do(step))
		return st.outcome()
	}
	h := st.submit(step)
	if !step.Has("result") {
		return st.outcome()
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := h.Wait(bounded)
	took := time.Since(began)
	out := st.outcome()
	if err != nil {
		return out + "error: " + err.Error() + "\n"
	}
	out += fmt.Sprintf("result after %v: ok=%v reverted=%v\n", took, r.OK(), r.Reverted)
	if r.Deviation != nil {
		out += fmt.Sprintf("the plan was %v\n", r.Deviation)
	}
	for _, f := range r.Failed {
		out += "  failed before: " + f.String() + "\n"
	}
	for _, s := range r.Keys {
		text := s.String()
		if now, err := st.Scheduler.Get(context.Background(), s.Key); err == nil && now.State == s.State && strings.HasPrefix(now.Reason, s.Reason) {
			text = line(now) // the same, and more
		}
		out += "  " + text + "\n"
	}
	return out
}

// submit hands a transaction over; "planned" makes a plan of it first, which is
// executed.
func (st *story) submit(step sim.Step) *scheduler.Handle {
	if !step.Has("planned") {
		h, err := st.Submit(step)
		st.check(err)
		return h
	}
	t, err := step.ParseTxn(st.Sources)
	st.check(err)
	p, err := st.Scheduler.Preview(context.Background(), t)
	st.check(err)
	t.Base = p.Base
	return st.Scheduler.Submit(t)
}

// plan shows what a transaction would do. Lines "vanish key" and "unread kind"
// happen before it; then, and with "all", it shows all of the plan.
func (st *story) plan(step sim.Step) string {
	var first scheduler.Event
	step.Lines = slices.DeleteFunc(step.Lines, func(l string) bool {
		what, of, _ := strings.Cut(l, " ")
		switch what {
		case "vanish":
			first.Vanish = append(first.Vanish, scheduler.Key(of))
		case "unread":
			first.Unread = append(first.Unread, of)
		default:
			return false
		}
		return true
	})
	t, err := step.ParseTxn(st.Sources)
	st.check(err)
	p, err := st.Scheduler.WhatIf(context.Background(), first, scheduler.Event{Txn: t})
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	if len(first.Vanish)+len(first.Unread) == 0 && !step.Has("all") {
		return p.String()
	}
	return planned(p)
}

// outcome waits until nothing moves and tells what was done and what changed.
func (st *story) outcome() string {
	synctest.Wait()
	var b strings.Builder
	log := st.World.Lines()
	for _, l := range log[st.shown:] {
		b.WriteString(l + "\n")
	}
	st.shown = len(log)
	all, err := st.Scheduler.List(context.Background())
	st.check(err)
	now := map[scheduler.Key]string{}
	for _, s := range all {
		now[s.Key] = line(s)
		if now[s.Key] != st.states[s.Key] {
			b.WriteString("  " + now[s.Key] + "\n")
		}
	}
	for _, k := range sortedKeys(st.states) {
		if _, ok := now[k]; !ok {
			b.WriteString("  " + string(k) + " is no more\n")
		}
	}
	st.states = now
	return b.String()
}

func sortedKeys[V any](m map[scheduler.Key]V) []scheduler.Key {
	keys := make([]scheduler.Key, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
