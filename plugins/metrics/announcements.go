package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/descriptors/announce"
)

// announcements shows what neighbours were told of addresses.
type announcements struct {
	figures func() announce.Figures
}

// Describe implements prometheus.Collector: the figures are not checked.
func (a announcements) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (a announcements) Collect(out chan<- prometheus.Metric) {
	if a.figures == nil {
		return
	}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("plumb_announcements_"+name, help, nil, nil)
	}
	f := a.figures()
	out <- prometheus.MustNewConstMetric(desc("sent_total", "Announcements of addresses to neighbours."), prometheus.CounterValue, float64(f.Sent))
	out <- prometheus.MustNewConstMetric(desc("failed_total", "Announcements of addresses to neighbours that could not be sent."), prometheus.CounterValue, float64(f.Failed))
	out <- prometheus.MustNewConstMetric(desc("waiting", "Announcements of addresses that wait for a carrier."), prometheus.GaugeValue, float64(f.Waiting))
}
