package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// agent shows which build this is, and what it has still to hear.
type agent struct{ Sources }

// Describe implements prometheus.Collector: the figures are not checked.
func (a agent) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (a agent) Collect(out chan<- prometheus.Metric) {
	gauge := func(name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("plumb_"+name, help, nil, nil), prometheus.GaugeValue, v)
	}
	counter := func(name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("plumb_"+name, help, nil, nil), prometheus.CounterValue, v)
	}
	build := prometheus.NewDesc("plumb_build_info", "Always 1; the labels say which build of the agent this is.", []string{"version", "commit"}, nil)
	out <- prometheus.MustNewConstMetric(build, prometheus.GaugeValue, 1, a.Version, a.Commit)
	if lag, known := a.Store.Lag(); known {
		gauge("etcd_lag_revisions", "Revisions of the store that have not come to the scheduler.", float64(lag))
		gauge("etcd_converged_revision", "Up to which revision of the store its intent was carried out as far as it can be.", float64(a.Store.Converged()))
	}
	checks := a.Store.Checks()
	counter("etcd_checks_total", "Comparisons of all that was read of the store with what it holds.", float64(checks.Done))
	counter("etcd_mismatches_total", "Keys in which these differed; they were read anew.", float64(checks.Differed))
	gauge("held_deletions", "Deletions that are held back because they are too many at once.", float64(a.Held()))
	gauge("frozen", "Whether an operator has frozen everything.", truth(a.Frozen()))
	deadline, waits := a.Unconfirmed()
	gauge("confirm_pending", "Whether a change waits to be confirmed, or is being taken back.", truth(waits))
	if waits {
		gauge("confirm_seconds", "Time that is left until this change is taken back.", max(time.Until(deadline).Seconds(), 0))
	}
}
