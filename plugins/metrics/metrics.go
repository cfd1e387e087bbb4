// Package metrics shows the agent's figures to Prometheus.
package metrics

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plumb-net/plumb/descriptors/announce"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/resources"
	"github.com/plumb-net/plumb/scheduler"
)

// Scheduler is what the figures are taken from.
type Scheduler interface {
	Statuses(ctx context.Context, prefixes ...scheduler.Key) iter.Seq2[scheduler.Status, error]
	Sources(ctx context.Context) ([]scheduler.SourceState, error)
	Kinds() []scheduler.KindInfo
	Figures() scheduler.Figures
}

// Store is the store of intent.
type Store interface {
	// Lag is how many revisions are still to come to the scheduler; false before any came.
	Lag() (revisions int64, listed bool)
	// Converged is up to which revision the intent was carried out.
	Converged() int64
	Checks() models.StoreChecks
}

// Sources are where the figures come from.
type Sources struct {
	Scheduler    Scheduler
	KernelWrites func() uint64
	Health       func() []models.Health
	Containers   func() []container.RuntimeHealth
	// Resources are what containers and other cgroups use; nil: it is not sampled.
	Resources func() []resources.Latest
	CNI       func() []cni.Figure
	Proxies   func() map[string]kernel.ProxyFigures
	// Announcements are what neighbours were told; nil: nothing is counted.
	Announcements func() announce.Figures
	Events        Events
	Store         Store
	// Held is how many deletions are held back, Frozen whether nothing is done at all.
	Held   func() int
	Frozen func() bool
	// Unconfirmed is until when a change has to be confirmed; false if none has to be.
	Unconfirmed func() (time.Time, bool)
	// Version and Commit are those of the agent.
	Version, Commit string
}

// Handler serves the figures. They are gathered when asked for, so they cost
// nothing otherwise.
func Handler(s Sources) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{sched: s.Scheduler, writes: s.KernelWrites, health: s.Health}, agent{s}, loop{s.Scheduler.Figures}, operations{s.Scheduler.Kinds},
		runtimes{s.Containers}, calls{s.CNI}, proxies{s.Proxies}, announcements{s.Announcements}, s.Events)
	if s.Resources != nil {
		r.MustRegister(usage{s.Resources})
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

type collector struct {
	sched  Scheduler
	writes func() uint64
	health func() []models.Health
}

func keysDesc() *prometheus.Desc {
	return prometheus.NewDesc("plumb_keys", "Keys by kind and state.", []string{"kind", "state"}, nil)
}

func attemptsDesc() *prometheus.Desc {
	return prometheus.NewDesc("plumb_failed_attempts", "Failed attempts of the keys that are failing now, by kind.", []string{"kind"}, nil)
}

func retriesDesc() *prometheus.Desc {
	return prometheus.NewDesc("plumb_retries_due", "Keys whose next try is at a known time, by kind.", []string{"kind"}, nil)
}

func syncedDesc() *prometheus.Desc {
	return prometheus.NewDesc("plumb_source_synced", "Whether a source of intent has told all that it wants.", []string{"source"}, nil)
}

func writesDesc() *prometheus.Desc {
	return prometheus.NewDesc("plumb_kernel_writes_total", "Requests to the kernel that change something.", nil, nil)
}

func healthDesc() *prometheus.Desc {
	return prometheus.NewDesc("plumb_part_ok", "Whether a part of the agent is ok or switched off.", []string{"part", "state"}, nil)
}

// Describe implements prometheus.Collector: the figures are not checked.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(writesDesc(), prometheus.CounterValue, float64(c.writes()))
	for _, h := range c.health() {
		out <- prometheus.MustNewConstMetric(healthDesc(), prometheus.GaugeValue, truth(h.State == "ok" || h.State == "off"), h.Name, h.State)
	}
	ctx := context.Background()
	sources, err := c.sched.Sources(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(syncedDesc(), err)
		return
	}
	for _, s := range sources {
		out <- prometheus.MustNewConstMetric(syncedDesc(), prometheus.GaugeValue, truth(s.Synced), s.Name)
	}
	keys, attempts, retries := map[[2]string]int{}, map[string]int{}, map[string]int{}
	for s, err := range c.sched.Statuses(ctx) {
		if err != nil {
			out <- prometheus.NewInvalidMetric(keysDesc(), err)
			return
		}
		keys[[2]string{s.Kind, s.State.String()}]++
		attempts[s.Kind] += s.Attempts
		if retries[s.Kind] += 0; !s.NextTry.IsZero() { // a kind without any is at zero
			retries[s.Kind]++
		}
	}
	for k, n := range keys {
		out <- prometheus.MustNewConstMetric(keysDesc(), prometheus.GaugeValue, float64(n), k[0], k[1])
	}
	for k, n := range attempts {
		out <- prometheus.MustNewConstMetric(attemptsDesc(), prometheus.GaugeValue, float64(n), k)
	}
	for k, n := range retries {
		out <- prometheus.MustNewConstMetric(retriesDesc(), prometheus.GaugeValue, float64(n), k)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
