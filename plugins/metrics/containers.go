package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/plugins/container"
)

// runtimes shows what the tracker of containers does, by runtime.
type runtimes struct {
	figures func() []container.RuntimeHealth
}

func runtimeDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("plumb_container_"+name, help, append([]string{"runtime"}, more...), nil)
}

// Describe implements prometheus.Collector: the figures are not checked.
func (r runtimes) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r runtimes) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	for _, h := range r.figures() {
		send := func(kind prometheus.ValueType, name, help string, v float64) {
			out <- prometheus.MustNewConstMetric(runtimeDesc(name, help), kind, v, h.Runtime)
		}
		count := func(name, help string, v uint64) { send(prometheus.CounterValue, name, help, float64(v)) }
		gauge := func(name, help string, v float64) { send(prometheus.GaugeValue, name, help, v) }
		gauge("known", "Containers known.", float64(h.Containers))
		gauge("running", "Containers with a living process.", float64(h.Running))
		gauge("in_error", "Containers whose last inspect failed.", float64(h.InError))
		gauge("stream_up", "Whether the stream of events stands.", truth(!h.ConnectedSince.IsZero()))
		count("streams_total", "Streams of events that stood.", uint64(h.Connects))
		count("hints_total", "Events that told of a container.", h.Hints)
		count("hints_coalesced_total", "Events of containers that waited for an inspect already.", h.Coalesced)
		count("missed_total", "Changes that a list showed and no event told.", h.Missed)
		count("inspects_total", "Inspects begun.", h.Inspects)
		count("inspect_failures_total", "Inspects that failed.", h.InspectFails)
		count("inspects_spared_total", "Inspects that a list made needless.", h.Spared)
		count("list_failures_total", "Lists that failed.", uint64(h.ListFails))
		count("slow_lists_total", "Lists that took longer than a second.", uint64(h.SlowLists))
		gauge("list_seconds", "How long the last list took.", h.ListTook.Seconds())
		if !h.LastList.IsZero() {
			gauge("list_age_seconds", "How long ago the last good list began.", now.Sub(h.LastList).Seconds())
		}
		for cause, n := range h.Relists {
			out <- prometheus.MustNewConstMetric(runtimeDesc("lists_total", "Lists begun, by what they were made for.", "cause"),
				prometheus.CounterValue, float64(n), h.Runtime, cause)
		}
	}
}
