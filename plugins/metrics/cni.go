package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/plugins/cni"
)

// calls shows what runtimes have asked by plumb-cni.
type calls struct {
	figures func() []cni.Figure
}

// Describe implements prometheus.Collector: the figures are not checked.
func (c calls) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c calls) Collect(out chan<- prometheus.Metric) {
	desc := prometheus.NewDesc("plumb_cni_seconds", "How long calls of plumb-cni took, by command and code of the error, 0 for none.",
		[]string{"command", "code"}, nil)
	for _, f := range c.figures() {
		buckets := map[float64]uint64{}
		for i, b := range cni.Bounds {
			buckets[b.Seconds()] = f.Within[i]
		}
		out <- prometheus.MustNewConstHistogram(desc, f.Count, f.Sum.Seconds(), buckets, f.Command, strconv.Itoa(f.Code))
	}
}
