package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/plugins/events"
	"github.com/plumb-net/plumb/plugins/oom"
)

// Events are where the figures of what happened come from.
type Events struct {
	Log func() events.Stats
	// Kills are those for want of memory; false where they are not watched.
	Kills func() (oom.Stats, bool)
}

// Describe implements prometheus.Collector: the figures are not checked.
func (e Events) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (e Events) Collect(out chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("plumb_"+name, help, nil, nil), kind, v)
	}
	count := func(name, help string, v uint64) { send(prometheus.CounterValue, name, help, float64(v)) }
	gauge := func(name, help string, v float64) { send(prometheus.GaugeValue, name, help, v) }
	log := e.Log()
	told := prometheus.NewDesc("plumb_events_total", "Events told since the start, by type, without what amends.", []string{"type"}, nil)
	for kind, n := range log.Told {
		out <- prometheus.MustNewConstMetric(told, prometheus.CounterValue, float64(n), string(kind))
	}
	gauge("events_kept", "Events that can be asked for.", float64(log.Count))
	gauge("events_bytes", "Memory that they take, roughly.", float64(log.Bytes))
	gauge("events_watchers", "Who watches events.", float64(log.Watchers))
	kills, watched := e.Kills()
	gauge("oom_watched", "Whether kills for want of memory are watched, beside what runtimes tell.", truth(watched))
	gauge("oom_log_readable", "Whether the kernel's log can be read, which names the victims.", truth(watched && kills.Messages == ""))
	if !watched {
		return
	}
	count("oom_kills_total", "Processes killed for want of memory.", kills.Kills)
	count("oom_kills_unnamed_total", "Those of them that only a counter told of.", kills.Unnamed)
	count("oom_kills_old_total", "Kills in messages from before the start, which are not told.", kills.Old)
	count("oom_log_gaps_total", "Gaps in the kernel's log; the counters of cgroups tell what was in them.", kills.Lost)
	gauge("oom_followed", "Containers whose counters are read.", float64(kills.Followed))
}
