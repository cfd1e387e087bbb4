package metrics

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/announce"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/scheduler"
)

// some is a scheduler that has done something.
type some struct{}

func (some) Statuses(context.Context, ...scheduler.Key) iter.Seq2[scheduler.Status, error] {
	return func(yield func(scheduler.Status, error) bool) {
		_ = yield(scheduler.Status{Key: "netns/n", Kind: "netns", State: scheduler.Configured}, nil) &&
			yield(scheduler.Status{Key: "route/r", Kind: "route", State: scheduler.Retrying, Attempts: 2, NextTry: time.Now().Add(time.Second)}, nil)
	}
}

func (some) Sources(context.Context) ([]scheduler.SourceState, error) {
	return []scheduler.SourceState{{Name: "etcd", Synced: true}}, nil
}

func (some) Kinds() []scheduler.KindInfo {
	return []scheduler.KindInfo{{Name: "netns"}, {Name: "route", AwaitTurn: 6, Drift: scheduler.DriftFigures{Found: 4, Repaired: 3}, Operations: []scheduler.OperationFigures{
		{Op: scheduler.OpCreate, OK: 3, Failed: 2, Took: 1500 * time.Millisecond, Within: map[time.Duration]uint64{time.Millisecond: 1, time.Second: 5}},
	}}}
}

func (some) Figures() scheduler.Figures {
	return scheduler.Figures{Rounds: 9, Busy: 250 * time.Millisecond, Inputs: 5, Operations: 6, History: 2048}
}

type store struct{}

func (store) Lag() (int64, bool)         { return 12, true }
func (store) Converged() int64           { return 345 }
func (store) Checks() models.StoreChecks { return models.StoreChecks{Done: 8, Differed: 2} }

// page is what is scraped of an agent of which every part has figures.
func page(t *testing.T) string {
	t.Helper()
	runtimes := func() []container.RuntimeHealth {
		return []container.RuntimeHealth{{Runtime: "docker", LastList: time.Now(), Relists: map[string]int{"period": 1}}}
	}
	asked := func() []cni.Figure { return []cni.Figure{{Command: "ADD", Within: make([]uint64, len(cni.Bounds))}} }
	forwarders := func() map[string]kernel.ProxyFigures { return map[string]kernel.ProxyFigures{"proxy/web": {}} }
	h := Handler(Sources{
		Scheduler: some{}, KernelWrites: func() uint64 { return 7 },
		Health:     func() []models.Health { return []models.Health{{Name: "etcd", State: "ok"}} },
		Containers: runtimes, Resources: someUse, CNI: asked, Proxies: forwarders, Announcements: (*announce.Announcer)(nil).Figures, Events: figuresOfEvents(t),
		Store: store{}, Held: func() int { return 21 }, Frozen: func() bool { return true },
		Unconfirmed: func() (time.Time, bool) { return time.Now().Add(-time.Second), true },
		Version:     "1.2.3", Commit: "abc",
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// TestOperations: how many of each kind, of which outcome, and how long they took.
func TestOperations(t *testing.T) {
	text := page(t)
	for _, want := range []string{
		`plumb_operations_total{kind="route",op="create",outcome="ok"} 3`, `plumb_operations_total{kind="route",op="create",outcome="failed"} 2`,
		`plumb_operation_seconds_bucket{kind="route",op="create",le="0.001"} 1`, `plumb_operation_seconds_bucket{kind="route",op="create",le="+Inf"} 5`,
		`plumb_operation_seconds_sum{kind="route",op="create"} 1.5`, `plumb_operation_seconds_count{kind="route",op="create"} 5`,
		`plumb_keys{kind="route",state="retrying"} 1`, `plumb_failed_attempts{kind="route"} 2`, `plumb_source_synced{source="etcd"} 1`,
		`plumb_etcd_converged_revision 345`, `plumb_etcd_checks_total 8`, `plumb_etcd_mismatches_total 2`,
		`plumb_held_deletions 21`, `plumb_frozen 1`,
		`plumb_kernel_writes_total 7`, `plumb_part_ok{part="etcd",state="ok"} 1`,
		`plumb_retries_due{kind="netns"} 0`, `plumb_retries_due{kind="route"} 1`,
		`plumb_awaiting_turn{kind="route"} 6`, `plumb_awaiting_turn{kind="netns"} 0`,
		`plumb_drift_found_total{kind="route"} 4`, `plumb_drift_repaired_total{kind="route"} 3`, `plumb_drift_found_total{kind="netns"} 0`,
		`plumb_scheduler_rounds_total 9`, `plumb_scheduler_busy_seconds_total 0.25`, `plumb_scheduler_inputs 5`, `plumb_scheduler_operations_waiting 6`,
		`plumb_history_bytes 2048`, `plumb_build_info{commit="abc",version="1.2.3"} 1`,
		`plumb_etcd_lag_revisions 12`, `plumb_confirm_pending 1`, "plumb_confirm_seconds 0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, `_operations_total{kind="netns"`) {
		t.Error("a kind that has done nothing has figures")
	}
}

// TestMetricsAreDocumented: docs/metrics.md has a line for each metric, with its type, its
// labels and what its help says, and none for what is not there.
func TestMetricsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:plumb|container|machine)_[a-z_]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(doc), -1) {
		listed[m[1]] = m[2]
	}
	text := page(t)
	var common []string // of what containers use; the text above the table has them
	for _, l := range usageLabels {
		common = append(common, l.name)
		if !strings.Contains(string(doc), "`"+l.name+"`") {
			t.Errorf("docs/metrics.md does not speak of the label %s", l.name)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^# HELP ((?:plumb|container|machine)_\w+) (.*)\n# TYPE \w+ (\w+)\n\w+(?:{(.*)})?`).FindAllStringSubmatch(text, -1) {
		var labels []string
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[4], -1) {
			if l[1] != "le" && !(strings.HasPrefix(m[1], "container_") && slices.Contains(common, l[1])) {
				labels = append(labels, l[1])
			}
		}
		if want := m[3] + " | " + strings.Join(labels, ", ") + " | " + m[2]; listed[m[1]] != want {
			t.Errorf("docs/metrics.md lacks\n| `%s` | %s |", m[1], want)
		}
		delete(listed, m[1])
	}
	for _, m := range regexp.MustCompile("`(process_[a-z_]+)`").FindAllStringSubmatch(string(doc), -1) {
		if !strings.Contains(text, "\n"+m[1]+" ") {
			t.Errorf("docs/metrics.md speaks of %s, which is not there", m[1])
		}
	}
	for name := range listed {
		t.Errorf("docs/metrics.md lists %s, which is not there", name)
	}
}
