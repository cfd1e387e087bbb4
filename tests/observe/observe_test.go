package observe

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rulesFile = "../../deploy/prometheus/rules.yaml"
	testsFile = "../../deploy/prometheus/rules_test.yaml"
	boardFile = "../../deploy/grafana/plumb.json"
	docs      = "../../docs/"
)

// notShown are the metrics that the dashboard leaves out, and why.
var notShown = map[string]string{
	"plumb_announcements_failed_total":      "the log names the first address and the reason",
	"plumb_announcements_sent_total":        "it follows the changes of addresses, which are shown",
	"plumb_announcements_waiting":           "the log and the history show links without a carrier",
	"plumb_scheduler_longest_round_seconds": "a loop that is held up shows in the time of transactions",
	"plumb_awaiting_turn":                   "the keys are shown by their states",
	"plumb_confirm_seconds":                 "the alert has it, which comes in time",
	"plumb_container_hints_coalesced_total": "for those who look into the tracker",
	"plumb_container_inspects_spared_total": "for those who look into the tracker",
	"plumb_container_slow_lists_total":      "how long lists take is shown",
	"plumb_container_streams_total":         "whether the stream stands is shown",
	"plumb_etcd_checks_total":               "what they found is shown",
	"plumb_etcd_converged_revision":         "it is beside etcd's own, for who looks at many agents",
	"plumb_events_bytes":                    "bounded by a setting",
	"plumb_events_kept":                     "bounded by a setting",
	"plumb_events_watchers":                 "who watches is of no account",
	"plumb_oom_followed":                    "for those who look into the watcher",
	"plumb_oom_kills_old_total":             "from before the start",
	"plumb_oom_log_gaps_total":              "what was in them is counted all the same",
}

type rule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

// rules are the alerts.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	var doc struct{ Groups []struct{ Rules []rule } }
	decode(t, rulesFile, yaml.Unmarshal, &doc)
	for _, g := range doc.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

// queries are those of the dashboard, by their panels, and those of its variables.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	type asks struct{ Expr string }
	var doc struct {
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			Title   string
			Targets []asks
		}
	}
	decode(t, boardFile, json.Unmarshal, &doc)
	all := map[string][]string{}
	for _, p := range doc.Panels {
		for _, q := range p.Targets {
			all[p.Title] = append(all[p.Title], strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(q.Expr))
		}
	}
	for _, v := range doc.Templating.List {
		if v.Definition != "" {
			all["variable "+v.Name] = []string{v.Definition}
		}
	}
	return all
}

func decode(t *testing.T, name string, how func([]byte, any) error, to any) {
	t.Helper()
	if err := how([]byte(text(t, name)), to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// promtool checks something with Prometheus' tool, and shows what it says against it.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal("promtool is missing: .ci/prepare")
	default:
		t.Skip("promtool is missing: .ci/prepare")
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestRules: Prometheus takes the alerts, and they fire when they should and not before.
func TestRules(t *testing.T) {
	promtool(t, "check", "rules", rulesFile)
	promtool(t, "test", "rules", testsFile)
}

// TestRulesAreTested: of each alert it is tested that it fires, and that it does not.
func TestRulesAreTested(t *testing.T) {
	var doc struct {
		Tests []struct {
			Cases []struct {
				Alert string `yaml:"alertname"`
				Fires []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	decode(t, testsFile, yaml.Unmarshal, &doc)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range doc.Tests {
		for _, c := range test.Cases {
			fires[c.Alert] = fires[c.Alert] || len(c.Fires) > 0
			silent[c.Alert] = silent[c.Alert] || len(c.Fires) == 0
		}
	}
	for _, r := range rules(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: it is tested that it fires %v, and that it does not %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
}

// TestRulesHelp: an alert says how bad it is and what to run, by commands that there are, and
// leads to a chapter that there is.
func TestRulesHelp(t *testing.T) {
	commands := text(t, docs+"cli.md")
	command := regexp.MustCompile(`agentctl ([a-z]+)`)
	runbook := regexp.MustCompile(`^https://github\.com/plumb-net/plumb/blob/main/docs/([a-z]+\.md)#(.+)$`)
	for _, r := range rules(t) {
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if !strings.Contains(r.Annotations["summary"], "$labels.instance") {
			t.Errorf("%s: the summary does not say where: %s", r.Alert, r.Annotations["summary"])
		}
		said := command.FindAllStringSubmatch(r.Annotations["description"], -1)
		if len(said) == 0 {
			t.Errorf("%s: the description does not say what to run: %s", r.Alert, r.Annotations["description"])
		}
		for _, m := range said {
			if !strings.Contains(commands, "\n## agentctl "+m[1]+"\n") {
				t.Errorf("%s: there is no agentctl %s", r.Alert, m[1])
			}
		}
		m := runbook.FindStringSubmatch(r.Annotations["runbook_url"])
		if m == nil {
			t.Errorf("%s: the runbook is at %q", r.Alert, r.Annotations["runbook_url"])
			continue
		}
		title := regexp.MustCompile(`(?mi)^## ` + strings.ReplaceAll(m[2], "-", " ") + `$`)
		if !title.MatchString(text(t, docs+m[1])) {
			t.Errorf("%s: docs/%s has no chapter %s", r.Alert, m[1], m[2])
		}
	}
}

// documented are the metrics of docs/metrics.md, which a test of plugins/metrics holds exact,
// and the series of these, of containers and of the process.
func documented(t *testing.T) (metrics []string, series map[string]bool) {
	t.Helper()
	series = map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(plumb_[a-z_]+)` \\| (\\w+) ").FindAllStringSubmatch(text(t, docs+"metrics.md"), -1) {
		metrics, series[m[1]] = append(metrics, m[1]), m[2] != "histogram"
		if m[2] == "histogram" {
			series[m[1]+"_bucket"], series[m[1]+"_count"], series[m[1]+"_sum"] = true, true, true
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(container_[a-z_]+)` |`(process_[a-z_]+)`").FindAllStringSubmatch(text(t, docs+"metrics.md"), -1) {
		series[m[1]+m[2]] = true
	}
	return metrics, series
}

var name = regexp.MustCompile(`\b(?:plumb|container|process|go)_[a-z_]+\b`)

// TestMetricsAreThere: what alerts and dashboard ask for is there to be scraped.
func TestMetricsAreThere(t *testing.T) {
	_, series := documented(t)
	asked := queries(t)
	for _, r := range rules(t) {
		asked[r.Alert] = []string{r.Expr}
	}
	for where, all := range asked {
		for _, query := range all {
			for _, metric := range name.FindAllString(query, -1) {
				if !series[metric] {
					t.Errorf("%s: there is no %s", where, metric)
				}
			}
		}
	}
}

// TestDashboard: it asks in the language of Prometheus, and shows all metrics but those that
// are left out on purpose.
func TestDashboard(t *testing.T) {
	shown := map[string]bool{}
	var doc strings.Builder
	doc.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for where, all := range queries(t) {
		for _, query := range all {
			for _, metric := range name.FindAllString(query, -1) {
				shown[metric] = true
			}
			if strings.HasPrefix(where, "variable ") {
				continue // in a language of Grafana's
			}
			if strings.Contains(query, "plumb_") && !strings.Contains(query, `instance=~".*"`) {
				t.Errorf("%s: it does not ask for the chosen hosts: %s", where, query)
			}
			quoted, err := json.Marshal(query)
			if err != nil {
				t.Fatal(err)
			}
			doc.WriteString("      - {record: query, expr: " + string(quoted) + "}\n")
		}
	}
	metrics, _ := documented(t)
	stale := maps.Clone(notShown)
	for _, m := range metrics {
		is := shown[m] || shown[m+"_bucket"] || shown[m+"_count"]
		why, leftOut := notShown[m]
		switch {
		case is && leftOut:
			t.Errorf("%s is shown, and left out (%s)", m, why)
		case !is && !leftOut:
			t.Errorf("%s is neither shown nor left out on purpose", m)
		}
		delete(stale, m)
	}
	for m := range stale {
		t.Errorf("%s is left out, and not there", m)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, []byte(doc.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}
