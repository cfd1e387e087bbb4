package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/scheduler"
)

// loop shows how much the scheduler has to do.
type loop struct {
	figures func() scheduler.Figures
}

// Describe implements prometheus.Collector: the figures are not checked.
func (l loop) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (l loop) Collect(out chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("plumb_"+name, help, nil, nil), kind, v)
	}
	f := l.figures()
	send(prometheus.CounterValue, "scheduler_rounds_total", "Rounds of the scheduler's loop.", float64(f.Rounds))
	send(prometheus.CounterValue, "scheduler_busy_seconds_total", "Time that these rounds took; a second in each second is all that there is.", f.Busy.Seconds())
	send(prometheus.GaugeValue, "scheduler_longest_round_seconds", "The longest of these rounds since the start; for so long nothing else was done.", f.Longest.Seconds())
	send(prometheus.GaugeValue, "scheduler_inputs", "Transactions, outcomes and questions that wait for the next round.", float64(f.Inputs))
	send(prometheus.GaugeValue, "scheduler_operations_waiting", "Operations that wait for a worker, batches counted as one.", float64(f.Operations))
	send(prometheus.GaugeValue, "history_bytes", "Memory that the history takes, roughly.", float64(f.History))
}
