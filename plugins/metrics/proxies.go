package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// proxies shows what the processes of proxies have done, by key.
type proxies struct {
	figures func() map[string]kernel.ProxyFigures
}

// Describe implements prometheus.Collector: the figures are not checked.
func (p proxies) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A process that was made anew begins at zero.
func (p proxies) Collect(out chan<- prometheus.Metric) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("plumb_proxy_"+name, help, []string{"key"}, nil)
	}
	sessions := desc("sessions", "Connections, or clients of udp, that a proxy has now.")
	counts := []struct {
		desc *prometheus.Desc
		of   func(kernel.ProxyFigures) uint64
	}{
		{desc("accepted_total", "Connections, or clients of udp, that have come to a proxy."), func(f kernel.ProxyFigures) uint64 { return f.Accepted }},
		{desc("refused_total", "Connections and datagrams that the other end of a proxy did not take."), func(f kernel.ProxyFigures) uint64 { return f.Refused }},
		{desc("evicted_total", "Clients of udp that gave way to others, because there were too many."), func(f kernel.ProxyFigures) uint64 { return f.Evicted }},
		{desc("failed_total", "Connections that could not be accepted, for want of files for one."), func(f kernel.ProxyFigures) uint64 { return f.Failed }},
	}
	for key, f := range p.figures() {
		out <- prometheus.MustNewConstMetric(sessions, prometheus.GaugeValue, float64(f.Active), key)
		for _, c := range counts {
			out <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.of(f)), key)
		}
	}
}
