package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/docker"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
	"github.com/plumb-net/plumb/plugins/events"
	"github.com/plumb-net/plumb/plugins/oom"
)

// scene is a real engine with a tracker and a recorder on it.
type scene struct {
	*dockertest.Engine
	t       *testing.T
	rec     *recorder
	tracker *container.Tracker
}

func newScene(t *testing.T, withLog bool) *scene {
	t.Helper()
	s := &scene{Engine: dockertest.Start(t), t: t}
	engine, err := docker.New(s.Host)
	if err != nil {
		t.Fatal(err)
	}
	var tracker *container.Tracker
	report := func(k container.OOMKill) { tracker.ReportOOM(k) }
	s.rec, err = newRecorder(events.New(events.Limits{}, nil, 0), report, slog.New(slog.DiscardHandler))
	if err != nil || s.rec.kills == nil {
		t.Fatal(err, s.rec)
	}
	if !withLog {
		host, err := oom.OpenHost()
		if err != nil {
			t.Fatal(err)
		}
		s.rec.kills, err = oom.New(oom.Options{Host: host, Tell: func(k oom.Kill) { report(reported(k)) }})
		if err != nil {
			t.Fatal(err)
		}
	}
	if tracker, err = container.New(container.Options{Observer: s.rec.observe}, engine); err != nil {
		t.Fatal(err)
	}
	s.tracker = tracker
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.rec.run(ctx, tracker.Runtimes) })
	running.Go(func() { _ = tracker.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// eventually waits until check finds nothing wrong.
func (s *scene) eventually(check func() error) {
	s.t.Helper()
	err := check()
	for end := time.Now().Add(2 * time.Minute); err != nil; err = check() {
		if time.Now().After(end) {
			for _, e := range s.of("") {
				s.t.Logf("%d %s %s %s %.6s %+v %+v %v", e.Seq, e.Seen.Format("05.000000"), e.At.Format("05.000000"), e.Type, e.ID, e.Exit, e.OOM, e.Amends)
			}
			s.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// of returns the events of a container and of some types.
func (s *scene) of(id string, types ...events.Type) []*events.Event {
	found, _ := s.rec.log.Query(events.Query{Container: id, Types: types})
	return found
}

// hungry is a shell that takes memory once it gets the signal USR1.
const hungry = `trap go=1 USR1; while [ -z "$go" ]; do sleep 0.1; done; a=x; while true; do a=$a$a; done`

// TestFiftyOOMKills: fifty containers run out of memory at once, most of
// them without a full report of the kernel. Every death says OOMKilled, in the
// end and once, and the victim is the container's first process.
func TestFiftyOOMKills(t *testing.T) {
	const many = 50
	s := newScene(t, true)
	ids := s.starve(many)
	s.eventually(func() error {
		for i, id := range ids {
			if err := s.diedOfMemory(id, s.of(id, container.Started)[0].Run.Pid); err != nil {
				return fmt.Errorf("container %d (%s): %w", i, id, err)
			}
		}
		return nil
	})
	reported := 0
	for _, id := range ids {
		for _, e := range s.of(id, container.OOM) {
			if e.OOM != nil && e.OOM.Constraint != "" {
				reported++
			}
		}
	}
	t.Logf("%d kills, %d of them with a full report; %+v", many, reported, s.rec.kills.Stats())
}

// TestWithoutTheKernelsLog: the runtime and the counters tell of the
// deaths; the victims have no names.
func TestWithoutTheKernelsLog(t *testing.T) {
	s := newScene(t, false)
	ids := s.starve(4)
	s.eventually(func() error {
		for i, id := range ids {
			if err := s.diedOfMemory(id, 0); err != nil {
				return fmt.Errorf("container %d (%s): %w", i, id, err)
			}
		}
		return nil
	})
}

// starve starts containers, waits until they are followed, and then has them
// take memory until they are killed. It returns their ids.
func (s *scene) starve(many int) []string {
	s.t.Helper()
	ids := make([]string, many)
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := worker; i < many; i += 4 {
				ids[i], _ = s.Try("run", "--detach", "--network", "none", "--memory", "12m", "--memory-swap", "12m",
					dockertest.Image, "sh", "-c", hungry)
			}
		})
	}
	wait.Wait()
	s.eventually(func() error {
		for i, id := range ids {
			if started := s.of(id, container.Started); len(id) != 64 || len(started) != 1 || started[0].Run.Pid == 0 {
				return fmt.Errorf("container %d (%s) is not followed", i, id)
			}
		}
		return nil
	})
	s.Docker(append([]string{"kill", "--signal", "USR1"}, ids...)...)
	return ids
}

// diedOfMemory checks the events of a container that ended by lack of memory.
func (s *scene) diedOfMemory(id string, pid int) error {
	deaths, kills := 0, 0
	var exit container.Exit
	for _, e := range s.of(id, container.Died) {
		if !e.Amends {
			deaths++
		}
		exit = *e.Exit
	}
	if deaths != 1 || exit.Reason != container.OutOfMemory || exit.Code != 137 || exit.Signal != 9 {
		return fmt.Errorf("%d deaths, the last word is %+v", deaths, exit)
	}
	victim := 0
	for _, e := range s.of(id, container.OOM) {
		if !e.Amends {
			kills++
		}
		if e.OOM != nil && e.OOM.Pid != 0 {
			victim = e.OOM.Pid
		}
	}
	if kills != 1 || victim != pid {
		return fmt.Errorf("%d kills, the victim was %d and not %d", kills, victim, pid)
	}
	return nil
}

// TestChildIsNoDeath: a child is killed, the container lives on; then it
// ends by itself, and that is no death by lack of memory.
func TestChildIsNoDeath(t *testing.T) {
	s := newScene(t, true)
	id := s.Docker("run", "--detach", "--network", "none", "--memory", "12m", "--memory-swap", "12m", dockertest.Image,
		"sh", "-c", `sleep 1; sh -c 'a=x; while true; do a=$a$a; done'; trap go=1 USR1; while [ -z "$go" ]; do sleep 0.1; done; exit 5`)
	s.eventually(func() error {
		for _, k := range s.of(id, container.OOM) {
			if k.OOM != nil && k.OOM.Pid != 0 && k.OOM.Pid != k.Run.Pid {
				return nil
			}
		}
		return errors.New("no child was killed")
	})
	if deaths := s.of(id, container.Died); len(deaths) > 0 {
		t.Fatalf("it died: %+v", deaths[0])
	}
	time.Sleep(300 * time.Millisecond) // the shell sets its trap
	s.Docker("kill", "--signal", "USR1", id)
	s.eventually(func() error {
		deaths := s.of(id, container.Died)
		if len(deaths) == 0 || deaths[len(deaths)-1].Exit.Code != 5 {
			return fmt.Errorf("deaths: %d", len(deaths))
		}
		return nil
	})
	for _, e := range s.of(id, container.Died) {
		if e.Exit.Reason == container.OutOfMemory {
			t.Errorf("%+v", e.Exit)
		}
	}
	if n := len(s.of("", events.RuntimeConnected)); n != 1 {
		t.Errorf("%d times connected", n)
	}
}

// TestKilledBySomebodyElse: a child is killed for lack of memory, and then
// somebody kills the container. Docker says OOMKilled; the first process was not the
// victim, and the death says so, and tells of the child.
func TestKilledBySomebodyElse(t *testing.T) {
	s := newScene(t, true)
	id := s.Docker("run", "--detach", "--network", "none", "--memory", "12m", "--memory-swap", "12m", dockertest.Image,
		"sh", "-c", `sleep 1; sh -c 'a=x; while true; do a=$a$a; done'; while true; do sleep 0.1; done`)
	s.eventually(func() error {
		for _, k := range s.of(id, container.OOM) {
			if k.OOM != nil && k.OOM.Pid != 0 && k.OOM.Pid != k.Run.Pid {
				return nil
			}
		}
		return errors.New("no child was killed")
	})
	s.Docker("kill", id)
	s.eventually(func() error {
		if out := s.Docker("inspect", "--format", "{{.State.OOMKilled}} {{.State.ExitCode}} {{.State.Status}}", id); out != "true 137 exited" {
			return fmt.Errorf("docker says %s", out)
		}
		if len(s.of(id, container.Died)) == 0 {
			return errors.New("its death is not told")
		}
		return nil
	})
	time.Sleep(6 * time.Second) // who amends has done so
	for _, e := range s.of(id, container.Died) {
		if e.Exit.Reason != "" || e.Exit.Code != 137 || e.OOM == nil || e.OOM.Pid == 0 || e.OOM.Pid == e.Run.Pid {
			t.Errorf("%+v, victim %+v", e.Exit, e.OOM)
		}
	}
	if c, err := s.tracker.Container(id); err != nil || c.Reason != "" {
		t.Errorf("shown is %v, %v", c, err)
	}
}

// TestToldByAnEarlierRun: kills that an earlier run of the agent told of
// are those of the same life of the container, each once.
func TestToldByAnEarlierRun(t *testing.T) {
	start := time.Now()
	kill := func(seq uint64, id string, started time.Time, amends bool, k *container.OOMKill) *events.Event {
		return &events.Event{Seq: seq, Event: container.Event{Type: container.OOM, ID: id, Seen: start,
			Run: container.Run{StartedAt: started}, Amends: amends, OOM: k}}
	}
	log := events.New(events.Limits{}, []*events.Event{
		kill(1, "a", start.Add(-time.Hour), false, nil), // of the life before
		kill(2, "a", start, false, nil),
		kill(3, "a", start, true, &container.OOMKill{Pid: 7}), // says who it was
		kill(4, "a", start, false, &container.OOMKill{Count: 3}),
		kill(5, "ab", start, false, nil), // of another container
	}, 0)
	r := &recorder{log: log}
	e := container.Event{Type: container.Discovered, ID: "a", Run: container.Run{StartedAt: start}}
	if n := r.told(e); n != 4 {
		t.Errorf("%d kills are told", n)
	}
	e.Type = container.Started
	if n := r.told(e); n != 0 {
		t.Errorf("%d kills of a new life are told", n)
	}
}
