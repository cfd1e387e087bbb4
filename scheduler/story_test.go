package scheduler_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Each file of testdata tells one story in commands; `go test -run
// TestStories/name -rewrite` writes what came of them. After every command
// that may do something stand the operations in their order, then the keys
// whose state or reason changed.
func TestStories(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &story{t: t}
				defer s.end()
				datadriven.RunTest(t, path, s.command)
			})
		})
	}
}

// story is one world and one scheduler, told what to do line by line.
type story struct {
	t       *testing.T
	world   *schedulertest.World
	s       *scheduler.Scheduler
	stop    func() error
	sources []string
	kinds   []kindLine
	mu      sync.Mutex
	faults  []orderedFault // under mu
	shown   int            // lines of the world's log that were shown
	states  map[scheduler.Key]string
	watcher *scheduler.Watcher
	began   time.Time
}

type kindLine struct {
	name    string
	options schedulertest.Options
}

type orderedFault struct {
	op    string
	key   scheduler.Key
	fault schedulertest.Fault
	times int // 0 means always
}

// command runs one directive.
func (st *story) command(t *testing.T, d *datadriven.TestData) string {
	lines := strings.Split(strings.TrimSpace(d.Input), "\n")
	if d.Input == "" {
		lines = nil
	}
	args := make([]string, len(d.CmdArgs))
	for i, a := range d.CmdArgs {
		args[i] = a.String()
	}
	ctx := context.Background()
	switch d.Cmd {
	case "world":
		return st.begin(lines)
	case "restart":
		return st.restart(args)
	case "txn":
		return st.txn(args, lines)
	case "plan":
		return st.plan(args, lines)
	case "put", "take", "foreign":
		return st.move(d.Cmd, lines)
	case "fault":
		return st.fault(lines)
	case "release":
		st.world.Release()
	case "wait":
		dur, err := time.ParseDuration(args[0])
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(dur)
	case "pause":
		return st.pause(args)
	case "resume":
		st.check(st.s.Resume(scheduler.Key(args[0])))
	case "retry":
		st.s.Retry(scheduler.Key(args[0]))
	case "register":
		return st.register(parseKind(lines[0]))
	case "unregister":
		st.check(st.s.Unregister(args[0]))
	case "why":
		c, err := st.s.Why(ctx, scheduler.Key(args[0]))
		if err != nil {
			return err.Error() + "\n"
		}
		return c.String()
	default:
		return st.show(d.Cmd, args)
	}
	return st.outcome()
}

func (st *story) check(err error) {
	st.t.Helper()
	if err != nil {
		st.t.Fatal(err)
	}
}

// begin makes a world: lines "sources strong weak", "silent" and kinds.
func (st *story) begin(lines []string) string {
	st.end()
	st.world, st.sources, st.kinds, st.faults = schedulertest.NewWorld(), []string{""}, nil, nil
	st.shown, st.watcher = 0, nil
	st.world.Fault = st.ordered
	silent := false
	for _, l := range lines {
		switch f := strings.Fields(l); f[0] {
		case "sources":
			st.sources = f[1:]
		case "silent":
			silent = true
		default:
			st.kinds = append(st.kinds, parseKind(l))
		}
	}
	st.start(silent)
	return st.outcome()
}

func (st *story) start(silent bool) {
	st.states = map[scheduler.Key]string{}
	st.s = scheduler.New(scheduler.Options{Sources: st.sources, Workers: 1, Rand: func() float64 { return 0.5 }})
	for _, k := range st.kinds {
		_, err := scheduler.Register(st.s, st.world.Kind(k.name, k.options))
		st.check(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- st.s.Run(ctx) }()
	st.stop = func() error { cancel(); return <-done }
	st.began = time.Now()
	if !silent {
		for _, name := range st.sources {
			st.s.Submit(scheduler.Txn{Source: name, Complete: true})
		}
	}
}

func (st *story) end() {
	if st.stop != nil {
		st.world.Release()
		st.check(st.stop())
		st.stop = nil
	}
}

// restart ends the scheduler and begins anew on the same world; "silent": no
// source speaks.
func (st *story) restart(args []string) string {
	st.check(st.stop())
	st.start(slices.Contains(args, "silent"))
	return st.outcome()
}

func (st *story) register(k kindLine) string {
	if _, err := scheduler.Register(st.s, st.world.Kind(k.name, k.options)); err != nil {
		return err.Error() + "\n"
	}
	return st.outcome()
}

func (st *story) txn(args, lines []string) string {
	h := st.s.Submit(st.parseTxn(args, lines))
	if !slices.Contains(args, "result") {
		return st.outcome()
	}
	began := time.Now()
	r, err := h.Wait(context.Background())
	took := time.Since(began)
	out := st.outcome()
	if err != nil {
		return out + "error: " + err.Error() + "\n"
	}
	out += fmt.Sprintf("result after %v: ok=%v reverted=%v\n", took, r.OK(), r.Reverted)
	for _, s := range r.Keys {
		text := s.String()
		if now, err := st.s.Get(context.Background(), s.Key); err == nil && now.State == s.State && strings.HasPrefix(now.Reason, s.Reason) {
			text = line(now) // the same, and more
		}
		out += "  " + text + "\n"
	}
	return out
}

func (st *story) plan(args, lines []string) string {
	p, err := st.s.Preview(context.Background(), st.parseTxn(args, lines))
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return p.String()
}

// move changes the world: "key [text…] [untold]".
func (st *story) move(cmd string, lines []string) string {
	for _, l := range lines {
		f := strings.Fields(l)
		k := scheduler.Key(f[0])
		tell := f[len(f)-1] != "untold"
		if !tell {
			f = f[:len(f)-1]
		}
		st.world.Unreliable(true)
		switch cmd {
		case "take":
			st.world.Take(k, tell)
		case "put":
			st.world.Put(k, parseThing(f[1:]), tell)
		case "foreign":
			st.world.SetForeign(k, parseThing(f[1:]))
		}
	}
	return st.outcome()
}

// fault orders faults: "create a/1 fail [times]", "look a/ fail", "none".
func (st *story) fault(lines []string) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, l := range lines {
		f := strings.Fields(l)
		if f[0] == "none" {
			st.faults = nil
			continue
		}
		fault, err := schedulertest.ParseFault(f[2])
		st.check(err)
		o := orderedFault{op: f[0], key: scheduler.Key(f[1]), fault: fault}
		if len(f) > 3 {
			o.times, err = strconv.Atoi(f[3])
			st.check(err)
		}
		st.faults = append(st.faults, o)
	}
	return ""
}

func (st *story) ordered(op string, k scheduler.Key) schedulertest.Fault {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, o := range st.faults {
		if o.op != op || o.key != k {
			continue
		}
		switch o.times {
		case 0:
		case 1:
			st.faults = slices.Delete(st.faults, i, i+1)
		default:
			st.faults[i].times--
		}
		return o.fault
	}
	return schedulertest.None
}

func (st *story) pause(args []string) string {
	var until time.Time
	if len(args) > 2 {
		d, err := time.ParseDuration(args[2])
		st.check(err)
		until = time.Now().Add(d)
	}
	st.check(st.s.Pause(scheduler.Key(args[0]), args[1], until))
	return st.outcome()
}

// outcome waits until nothing moves and tells what was done and what changed.
func (st *story) outcome() string {
	synctest.Wait()
	var b strings.Builder
	log := st.world.Lines()
	for _, l := range log[st.shown:] {
		b.WriteString(l + "\n")
	}
	st.shown = len(log)
	all, err := st.s.List(context.Background())
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
