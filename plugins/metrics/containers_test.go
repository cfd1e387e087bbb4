package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/plugins/container"
)

// TestRow65_Figures: what the tracker counts is there to scrape, and sound.
func TestRow65_Figures(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(runtimes{func() []container.RuntimeHealth {
		return []container.RuntimeHealth{
			{Runtime: "docker", Hints: 7, Missed: 2, LastList: time.Now().Add(-time.Minute), Relists: map[string]int{"period": 3, "connected": 1}},
			{Runtime: "containerd:k8s.io"},
		}
	}})
	found, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range found {
		text.WriteString(f.String() + "\n")
	}
	for _, want := range []string{"plumb_container_hints_total", "plumb_container_missed_total", "plumb_container_list_age_seconds", "plumb_container_lists_total", `"period"`, `"containerd:k8s.io"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s in\n%s", want, text.String())
		}
	}
}
