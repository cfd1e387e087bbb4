package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/events"
	"github.com/plumb-net/plumb/plugins/oom"
)

// TestFigures: what the tracker counts is there to scrape, and sound.
func TestFigures(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(runtimes{func() []container.RuntimeHealth {
		return []container.RuntimeHealth{
			{Runtime: "docker", Hints: 7, Missed: 2, LastList: time.Now().Add(-time.Minute), Relists: map[string]int{"period": 3, "connected": 1}},
			{Runtime: "containerd:k8s.io"},
		}
	}})
	r.MustRegister(figuresOfEvents(t))
	found, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range found {
		text.WriteString(f.String() + "\n")
	}
	for _, want := range []string{"plumb_container_hints_total", "plumb_container_missed_total", "plumb_container_list_age_seconds", "plumb_container_lists_total", `"period"`, `"containerd:k8s.io"`,
		`name:"plumb_events_total" help:"Events told since the start, by type, without what amends." type:COUNTER metric:{label:{name:"type" value:"died"} counter:{value:1}}`,
		`"plumb_events_kept"`, `"plumb_oom_kills_unnamed_total"`} {
		if !strings.Contains(strings.ReplaceAll(text.String(), "  ", " "), want) {
			t.Errorf("no %s in\n%s", want, text.String())
		}
	}
}

// figuresOfEvents are those of a death that was explained later.
func figuresOfEvents(t *testing.T) Events {
	t.Helper()
	log := events.New(events.Limits{}, nil, 0)
	log.Add(container.Event{Type: container.Died})
	log.Add(container.Event{Type: container.Died, Amends: true})
	return Events{Log: log.Stats, Kills: func() (oom.Stats, bool) { return oom.Stats{Kills: 3, Unnamed: 1}, true }}
}
