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
	build := prometheus.NewDesc("plumb_build_info", "Always 1; the labels say which build of the agent this is.", []string{"version", "commit"}, nil)
	out <- prometheus.MustNewConstMetric(build, prometheus.GaugeValue, 1, a.Version, a.Commit)
	if lag, known := a.Lag(); known {
		gauge("etcd_lag_revisions", "Revisions of the store that have not come to the scheduler.", float64(lag))
	}
	deadline, waits := a.Unconfirmed()
	gauge("confirm_pending", "Whether a change waits to be confirmed, or is being taken back.", truth(waits))
	if waits {
		gauge("confirm_seconds", "Time that is left until this change is taken back.", max(time.Until(deadline).Seconds(), 0))
	}
}
