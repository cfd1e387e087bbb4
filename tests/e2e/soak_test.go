//go:build soak

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/docker/dockertest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

var (
	soak    = flag.Duration("soak", 5*time.Minute, "how long TestSoak churns")
	workers = flag.Int("workers", 30, "how many workers TestSoak has")
)

// twoLists is how long the agent may take to find out by lists alone, if each
// comes as late as it may: it lists every 30 s, and once in 45 s at least.
const twoLists = 2 * 45 * time.Second

// TestSoak: thirty workers run, kill, stop, restart, rename, pause, enter
// and remove containers, while the engine is ended, killed and frozen, its
// answers are late, wrong or none, its events are dropped, doubled, held and cut,
// and the agent is halted for twenty seconds with more events than the engine
// keeps. Two lists later the agent's table is the engine's, and so is the end of
// each story that it told; it holds no more than at the start.
func TestSoak(t *testing.T) {
	s := newSoak(t)
	before := s.holds()
	ctx, cancel := context.WithTimeout(t.Context(), *soak)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { s.proxy.Misbehave(ctx) })
	all.Go(func() { s.engineEnds(ctx) })
	all.Go(func() { s.churn.Run(ctx, *workers) })
	halfway(ctx)
	midway := s.holds()
	s.haltAgent()
	all.Wait()
	s.churn.Settle(t)

	took := s.h.Within(twoLists, "the agent's table to be the engine's", s.agree)
	t.Logf("%d operations; the table agrees after %v", s.churn.Ops(), took.Round(time.Millisecond))
	s.h.Within(twoLists, "the stories to be sound", s.stories)
	s.h.Docker(append([]string{"rm", "--force"}, strings.Fields(s.h.Docker("ps", "--all", "--quiet"))...)...)
	s.h.Within(twoLists, "the table to be empty", s.agree)
	s.h.Within(twoLists, "the stories to end", s.stories)
	after := s.holds()
	t.Logf("before %v, midway %v, after %v", before, midway, after)
	after.flat(t, before, midway)
}

// soakRun is an agent that knows its engine by a proxy.
type soakRun struct {
	t     *testing.T
	h     *host.Host
	proxy *dockertest.Proxy
	churn *dockertest.Churn
}

func newSoak(t *testing.T) *soakRun {
	h := host.New(t, host.Options{Fast: true, Args: []string{"--events", "64"}})
	s := &soakRun{t: t, h: h, proxy: h.Engine.Proxy(t), churn: h.Engine.Churn(t, 25)}
	h.Args = append(h.Args, "--docker", s.proxy.Host)
	h.Start()
	return s
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// halfway waits for the middle of a time.
func halfway(ctx context.Context) {
	end, _ := ctx.Deadline()
	rest(ctx, time.Until(end)/2)
}

// engineEnds has the engine end in each way, again and again.
func (s *soakRun) engineEnds(ctx context.Context) {
	ways := []func(e *dockertest.Engine){
		(*dockertest.Engine).Restart,
		func(e *dockertest.Engine) { e.Kill(); e.Up() },
		func(e *dockertest.Engine) { e.Freeze(); time.Sleep(5 * time.Second); e.Thaw() },
	}
	for i := 0; ; i++ {
		rest(ctx, 20*time.Second)
		if ctx.Err() != nil {
			return
		}
		s.h.Engine.Do(s.t, ways[i%len(ways)])
	}
}

// haltAgent stops the agent's process for 20 s, in which the engine has more to
// tell than it keeps for anybody. How long that takes is up to the engine.
func (s *soakRun) haltAgent() {
	ctx := s.t.Context()
	signal := func(x syscall.Signal) {
		if err := syscall.Kill(s.h.AgentPid(), x); err != nil {
			s.t.Error(err)
		}
	}
	var made struct{ ID string }
	for ctx.Err() == nil && s.churn.Call(ctx, "POST", "containers/create", map[string]any{"Image": dockertest.Image, "Cmd": []string{"true"}}, &made) != nil {
		rest(ctx, 100*time.Millisecond) // the engine is away
	}
	signal(syscall.SIGSTOP)
	began, renamed := time.Now(), 0
	for renamed < 1500 && time.Since(began) < 10*time.Minute || time.Since(began) < 20*time.Second {
		name := fmt.Sprintf("containers/%s/rename?name=halted%d", made.ID, renamed)
		if s.churn.Call(ctx, "POST", name, nil, nil) == nil {
			renamed++
		} else {
			rest(ctx, 100*time.Millisecond)
		}
	}
	signal(syscall.SIGCONT)
	s.t.Logf("the agent was halted for %v, over %d renames and all else", time.Since(began).Round(time.Second), renamed)
	if renamed < 1500 {
		s.t.Error("the engine has too little to tell while the agent is halted")
	}
}

// contained is a container, in the words of both sides.
type contained struct {
	ID        string `json:"container_id"`
	Name      string
	State     string
	Pid       int
	StartedAt moment `json:"started_at"`
	ExitCode  *int   `json:"exit_code"`
	Error     string
	failed    bool // docker's last try to start it failed; the code is that try's
}

// moment is a time, in words that can be compared.
type moment string

// UnmarshalJSON takes times with and without zeros at their end.
func (m *moment) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if *m = ""; !at.IsZero() {
		*m = moment(at.UTC().Format(time.RFC3339Nano))
	}
	return err
}

// before reports whether m is earlier, or no time at all.
func (m moment) before(other moment) bool {
	a, _ := time.Parse(time.RFC3339Nano, string(m))
	b, _ := time.Parse(time.RFC3339Nano, string(other))
	return a.Before(b)
}

func (c contained) line() string {
	code := "-"
	if c.ExitCode != nil && c.State == "exited" {
		code = fmt.Sprint(*c.ExitCode)
	}
	return fmt.Sprintf("%.12s %s %s pid %d started %s exit %s error %q\n", c.ID, c.Name, c.State, c.Pid, c.StartedAt, code, c.Error)
}

func table(all []contained) string {
	var rows []string
	for _, c := range all {
		rows = append(rows, c.line())
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}

// told is what the agent knows; real what docker ps and inspect say.
func (s *soakRun) told() (all []contained, err error) {
	r := s.h.Ctl("containers", "-o", "json")
	if r.Code != 0 || strings.Contains(r.Err, "unknown") {
		return nil, errors.New(r.Err)
	}
	return all, json.Unmarshal([]byte(r.Out), &all)
}

func (s *soakRun) real() (all []contained, err error) {
	list, err := s.h.Engine.Try("ps", "--all", "--quiet", "--no-trunc")
	if err != nil || list == "" {
		return nil, err
	}
	out, err := s.h.Engine.Try(append([]string{"inspect"}, strings.Fields(list)...)...)
	if err != nil {
		return nil, err
	}
	var found []struct {
		ID    string `json:"Id"`
		Name  string
		State struct {
			Status    string
			Pid       int
			ExitCode  int
			StartedAt moment
			Error     string
		}
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return nil, err
	}
	for _, f := range found {
		all = append(all, contained{ID: f.ID, Name: strings.TrimPrefix(f.Name, "/"), State: f.State.Status,
			Pid: f.State.Pid, StartedAt: f.State.StartedAt, ExitCode: &f.State.ExitCode, failed: f.State.Error != ""})
	}
	return all, nil
}

// remembered takes from what was told the starts that docker forgot when it was
// killed in the middle of them: it tells none, or that of the run before. It may know
// as little of how such a run ended; then nobody does.
func remembered(real, told []contained) []contained {
	known := map[string]contained{}
	for _, c := range told {
		known[c.ID] = c
	}
	for i := range real {
		is, was := &real[i], known[real[i].ID]
		if was.StartedAt == "" || is.State == "created" || !is.StartedAt.before(was.StartedAt) {
			continue
		}
		is.StartedAt = was.StartedAt
		if was.ExitCode != nil && *was.ExitCode == unknownExit {
			is.ExitCode = was.ExitCode
		}
	}
	return real
}

const unknownExit = -1

func (s *soakRun) agree() error {
	real, err := s.real()
	if err != nil {
		return err
	}
	told, err := s.told()
	if err != nil {
		return err
	}
	real = remembered(real, told)
	if got, want := table(told), table(real); got != want {
		rest(s.t.Context(), 300*time.Millisecond) // looking costs what they need to move on
		return fmt.Errorf("the agent says\n%sdocker says\n%s%s", without(got, want), without(want, got), s.h.Ctl("status").Out)
	}
	return nil
}

// without are the lines of a that b has not.
func without(a, b string) string {
	var out strings.Builder
	for line := range strings.Lines(a) {
		if !strings.Contains(b, line) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// happened is an event of the agent.
type happened struct {
	Type      string
	ID        string `json:"container_id"`
	StartedAt moment `json:"started_at"`
	ExitCode  *int   `json:"exit_code"`
	Amends    bool
}

// stories holds what was told of each container against itself and, where the
// container is there, against the engine.
func (s *soakRun) stories() error {
	var events []happened
	if err := json.Unmarshal([]byte(s.h.MustCtl("events", "-o", "json", "-n", "1000000")), &events); err != nil {
		return err
	}
	byID := map[string]*chapter{}
	count := map[string]int{}
	var bad []error
	for _, e := range events {
		if e.ID == "" {
			continue
		}
		if byID[e.ID] == nil {
			byID[e.ID] = &chapter{runs: map[moment]bool{}}
		}
		if !e.Amends {
			count[e.Type]++
		}
		if err := byID[e.ID].step(e); err != nil {
			bad = append(bad, fmt.Errorf("%.12s: %+v: %w", e.ID, e, err))
		}
	}
	real, err := s.real()
	if err != nil {
		return err
	}
	told, err := s.told()
	if err != nil {
		return err
	}
	for _, c := range remembered(real, told) {
		if err := byID[c.ID].endsAs(c); err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", c.line(), err))
		}
		delete(byID, c.ID)
	}
	for id, c := range byID {
		if !c.removed {
			bad = append(bad, fmt.Errorf("%.12s: its removal was not told", id))
		}
	}
	if len(bad) == 0 {
		s.t.Log("told: ", count)
	}
	return errors.Join(bad...)
}

// chapter is how far the story of a container is told.
type chapter struct {
	begun, alive, removed bool
	last                  moment // the start of the last run
	exit                  int
	runs                  map[moment]bool
}

func (c *chapter) step(e happened) error {
	first := e.Type == "created" || e.Type == "discovered"
	switch {
	case first == c.begun:
		return errors.New("it does not come first, or comes twice")
	case c.removed && !e.Amends && e.Type != "oom":
		return errors.New("it was removed")
	}
	c.begun = true
	switch e.Type {
	case "discovered", "started":
		if e.StartedAt == "" {
			return nil
		}
		switch {
		case c.alive:
			return errors.New("the run before it lives")
		case c.runs[e.StartedAt]:
			return errors.New("it started twice")
		}
		c.alive, c.last, c.runs[e.StartedAt] = true, e.StartedAt, true
	case "died":
		switch {
		case e.Amends && !c.runs[e.StartedAt]:
			return errors.New("it amends nothing")
		case !e.Amends && (!c.alive || e.StartedAt != c.last):
			return errors.New("no such run lives")
		}
		if e.StartedAt == c.last {
			c.alive, c.exit = false, *e.ExitCode
		}
	case "removed":
		if c.alive {
			return errors.New("it lives")
		}
		c.removed = true
	}
	return nil
}

// endsAs holds the last run that was told against the container as it is.
func (c *chapter) endsAs(is contained) error {
	switch {
	case c == nil:
		return errors.New("nothing was told")
	case c.removed:
		return errors.New("it was told to be removed")
	case c.last != is.StartedAt && is.StartedAt != "":
		return fmt.Errorf("the last run that was told began at %q", c.last)
	case c.alive != (is.Pid != 0):
		return fmt.Errorf("told to be alive: %v", c.alive)
	case is.State == "exited" && !is.failed && c.last != "" && c.exit != *is.ExitCode:
		return fmt.Errorf("told to have ended with %d", c.exit)
	}
	return nil
}

// holding is what a process holds.
type holding struct {
	descriptors, ofProcesses, goroutines int
	live                                 float64 // MB, after the last collection
}

func (h holding) String() string {
	return fmt.Sprintf("%d descriptors, %d of them of processes; %d goroutines; %.1f MB", h.descriptors, h.ofProcesses, h.goroutines, h.live)
}

// holds is what the agent holds.
func (s *soakRun) holds() (h holding) {
	page, err := s.h.HTTP("/metrics")
	if err != nil {
		s.t.Error(err)
	}
	figure := func(name string) (v float64) {
		_, rest, _ := strings.Cut(page, "\n"+name+" ")
		if _, err := fmt.Sscan(rest, &v); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
		return v
	}
	h.descriptors, h.goroutines = int(figure("process_open_fds")), int(figure("go_goroutines"))
	h.live = figure("go_memstats_next_gc_bytes") / 2e6 // it collects when that has doubled
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.h.AgentPid()))
	for _, l := range links {
		if to, _ := os.Readlink(l); strings.Contains(to, "pidfd") {
			h.ofProcesses++
		}
	}
	return h
}

// connections are how many the agent may keep open to the engine: one for each
// inspect that runs at once, for a list and for the events, and two goroutines
// for each.
const connections = 16 + 2

// growth is by how many MB what lives may grow in the second half: the log of
// events does until it is full.
const growth = 16

// flat: after all containers are gone no more is held than before there were any.
func (h holding) flat(t *testing.T, before, midway holding) {
	if h.ofProcesses != 0 {
		t.Errorf("it holds %d processes of containers, and there are none", h.ofProcesses)
	}
	if h.descriptors > before.descriptors+connections {
		t.Errorf("%d descriptors, at the start %d", h.descriptors, before.descriptors)
	}
	if h.goroutines > before.goroutines+2*connections {
		t.Errorf("%d goroutines, at the start %d", h.goroutines, before.goroutines)
	}
	if h.live > midway.live+growth {
		t.Errorf("%.1f MB, midway %.1f", h.live, midway.live)
	}
}
