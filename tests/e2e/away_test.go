package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// occurrence is an event of the agent.
type occurrence struct {
	Type       string
	Name       string
	ID         string    `json:"container_id"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	ExitCode   *int      `json:"exit_code"`
	Reason     string
	Amends     bool
	FoundLater bool `json:"found_later"`
}

// occurrences returns the events of one container.
func occurrences(t testing.TB, h *host.Host, id string) (all []occurrence) {
	t.Helper()
	if err := json.Unmarshal([]byte(h.MustCtl("events", "--container", id, "-o", "json", "-n", "100000")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// deaths returns, by the start of each run of a container, how many deaths were reported and the
// last event about its death.
func deaths(all []occurrence) (count map[time.Time]int, last map[time.Time]occurrence) {
	count, last = map[time.Time]int{}, map[time.Time]occurrence{}
	for _, e := range all {
		if e.Type != "died" {
			continue
		}
		last[e.StartedAt] = e
		if !e.Amends {
			count[e.StartedAt]++
		}
	}
	return count, last
}

// TestAgentAway: containers end, restart and are created and removed while the agent is stopped or
// killed. Each ended run that docker lists, or that was reported before, has one death with the
// data of docker. A death while the agent was away is marked as found later.
func TestAgentAway(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"stopped", "killed"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := host.New(t, host.Options{Parallel: true})
			h.Start()
			a := away{Host: h.With(t), t: t, ids: map[string]string{}}
			for _, name := range []string{"ends", "shot", "goes", "again", "lives", "over"} {
				a.ids[name] = a.RunCommand(name, nil, "sh", "-c", "trap 'exit 7' USR1; while true; do sleep 0.1; done")
			}
			a.Docker("kill", a.ContainerName("over"))
			a.Eventually("all is told", func() error { return a.told("started", 6, "died", 1) })
			a.Eventually("the death is on disk", a.deathWritten) // written asynchronously
			if way == "killed" {
				a.Kill9()
			} else {
				a.Stop()
			}
			a.meanwhile()
			a.Start()
			a.check()
			a.Stop()
			a.Start() // no event is reported twice
			a.check()
			a.Docker("kill", a.ContainerName("lives"))
			a.Eventually("the death is told", func() error {
				if count, _ := deaths(occurrences(t, h, a.ids["lives"])); len(count) != 1 {
					return fmt.Errorf("deaths: %v", count)
				}
				return nil
			})
		})
	}
}

// away is a host whose agent is stopped for a while.
type away struct {
	*host.Host
	t   *testing.T
	ids map[string]string
}

// told checks the number of events of each type; args are pairs of a type and a number.
func (a *away) told(args ...any) error {
	for i := 0; i < len(args); i += 2 {
		n := 0
		for _, id := range a.ids {
			for _, e := range occurrences(a.t, a.Host, id) {
				if e.Type == args[i] && !e.Amends {
					n++
				}
			}
		}
		if n != args[i+1] {
			return fmt.Errorf("%d times %s", n, args[i])
		}
	}
	return nil
}

// deathWritten returns an error while the death of the container over is not in an events file.
func (a *away) deathWritten() error {
	files, err := filepath.Glob(filepath.Join(a.StateDir(), "events*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, a.ids["over"]) && strings.Contains(line, "died") {
				return nil
			}
		}
	}
	return fmt.Errorf("not in %v", files)
}

// meanwhile changes the containers while the agent is away.
func (a *away) meanwhile() {
	a.Docker("kill", "--signal", "USR1", a.ContainerName("ends"))
	if err := syscall.Kill(a.Pid("shot"), syscall.SIGKILL); err != nil {
		a.t.Fatal(err)
	}
	a.Docker("rm", "--force", a.ContainerName("goes"))
	a.Docker("restart", "--time", "0", a.ContainerName("again"))
	a.ids["short"] = a.RunCommand("short", nil, "sh", "-c", "exit 4")
	a.ids["new"] = a.Host.RunPlain("new")
	for _, name := range []string{"ends", "shot", "short"} {
		a.Docker("wait", a.ContainerName(name))
	}
}

// check compares the reported events with the state of docker.
func (a *away) check() {
	a.t.Helper()
	for name, id := range a.ids {
		all := occurrences(a.t, a.Host, id)
		count, last := deaths(all)
		want := map[string]int{"ends": 1, "shot": 1, "goes": 1, "again": 1, "over": 1, "short": 1}[name]
		if len(count) != want {
			a.t.Errorf("%s: deaths of %d runs were reported: %+v", name, len(count), all)
		}
		for start, n := range count {
			if later := name != "over"; n != 1 || last[start].FoundLater != later {
				a.t.Errorf("%s: run from %v: %d deaths reported: %+v", name, start, n, last[start])
			}
		}
		removed := slices.ContainsFunc(all, func(e occurrence) bool { return e.Type == "removed" && e.FoundLater })
		if removed != (name == "goes") {
			a.t.Errorf("%s: removal reported: %v", name, removed)
		}
		if name != "goes" {
			a.agrees(name, last)
		}
	}
}

// agrees compares the reported death of a container's last run with docker.
func (a *away) agrees(name string, last map[time.Time]occurrence) {
	a.t.Helper()
	f := strings.Fields(a.Docker("inspect", "--format", "{{.State.Running}} {{.State.StartedAt}} {{.State.FinishedAt}} {{.State.ExitCode}}", a.ContainerName(name)))
	start, err := time.Parse(time.RFC3339Nano, f[1])
	end, err2 := time.Parse(time.RFC3339Nano, f[2])
	if err != nil || err2 != nil {
		a.t.Fatal(f, err, err2)
	}
	e, died := last[start]
	switch {
	case died == (f[0] == "true"):
		a.t.Errorf("%s: running: %s, death reported: %v", name, f[0], died)
	case died && (fmt.Sprint(*e.ExitCode) != f[3] || e.FinishedAt.Sub(end).Abs() > 10*time.Millisecond):
		a.t.Errorf("%s: docker: %v; event: exit code %d at %v", name, f, *e.ExitCode, e.FinishedAt)
	}
}
