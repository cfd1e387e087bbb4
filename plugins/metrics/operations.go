package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/scheduler"
)

// operations shows what the scheduler has done, and what it has repaired, by kind.
type operations struct {
	kinds func() []scheduler.KindInfo
}

// Describe implements prometheus.Collector: the figures are not checked.
func (o operations) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A kind that was registered anew begins at zero.
func (o operations) Collect(out chan<- prometheus.Metric) {
	total := prometheus.NewDesc("plumb_operations_total", "Operations that have ended, by kind, what they do, and outcome: ok or failed.",
		[]string{"kind", "op", "outcome"}, nil)
	seconds := prometheus.NewDesc("plumb_operation_seconds", "How long operations took, by kind and what they do.", []string{"kind", "op"}, nil)
	found := prometheus.NewDesc("plumb_drift_found_total", "Changes by others of what was as wanted, by kind.", []string{"kind"}, nil)
	repaired := prometheus.NewDesc("plumb_drift_repaired_total", "Those of these changes that were repaired, by kind.", []string{"kind"}, nil)
	awaiting := prometheus.NewDesc("plumb_awaiting_turn", "Keys that are to go and wait for their turn, by kind.", []string{"kind"}, nil)
	for _, k := range o.kinds() {
		if !k.Observed {
			out <- prometheus.MustNewConstMetric(awaiting, prometheus.GaugeValue, float64(k.AwaitTurn), k.Name)
			out <- prometheus.MustNewConstMetric(found, prometheus.CounterValue, float64(k.Drift.Found), k.Name)
			out <- prometheus.MustNewConstMetric(repaired, prometheus.CounterValue, float64(k.Drift.Repaired), k.Name)
		}
		for _, f := range k.Operations {
			op := f.Op.String()
			out <- prometheus.MustNewConstMetric(total, prometheus.CounterValue, float64(f.OK), k.Name, op, "ok")
			out <- prometheus.MustNewConstMetric(total, prometheus.CounterValue, float64(f.Failed), k.Name, op, "failed")
			buckets := map[float64]uint64{}
			for b, n := range f.Within {
				buckets[b.Seconds()] = n
			}
			out <- prometheus.MustNewConstHistogram(seconds, f.OK+f.Failed, f.Took.Seconds(), buckets, k.Name, op)
		}
	}
}
