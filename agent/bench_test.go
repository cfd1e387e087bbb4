package agent

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/microservice"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/docker"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
	"github.com/plumb-net/plumb/scheduler"
)

// BenchmarkNotification measures from the engine's time of a start or a death to
// the moments at which the observer is told, the scheduler is notified of the key
// of the microservice, and the scheduler has read it; beside the same for the bare
// event.
func BenchmarkNotification(b *testing.B) {
	e := dockertest.Start(b)
	n := newNotices(b, e)
	defer n.stop()
	c := e.Churn(b, 1)
	var made struct{ ID string }
	for range 20 {
		err := c.Call(b.Context(), "POST", "containers/create", map[string]any{
			"Image": dockertest.Image, "Cmd": []string{"sleep", "1000"}, "Env": []string{"MICROSERVICE_LABEL=web"}, "HostConfig": map[string]any{"NetworkMode": "none"},
		}, &made)
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for _, what := range []string{"start", "kill"} {
			n.begin()
			if err := c.Call(b.Context(), "POST", "containers/"+made.ID+"/"+what, nil, nil); err != nil {
				b.Fatal(err)
			}
			n.await(b)
		}
	}
	n.report(b)
}

// notices are when those who are told were told.
type notices struct {
	stop func()

	mu    sync.Mutex
	at    time.Time            // the engine's time of what happened
	first map[string]time.Time // who was told when, this time
	took  map[string][]time.Duration
	all   chan struct{}
}

// told are those who are, in this order.
var told = []string{"raw", "observer", "notified", "known"}

func newNotices(b *testing.B, e *dockertest.Engine) *notices {
	b.Helper()
	n := &notices{took: map[string][]time.Duration{}}
	ends := func(t container.EventType) bool { return t == container.Started || t == container.Died }
	engine, bare := dial(b, e), dial(b, e)
	tracker, err := container.New(container.Options{Observer: func(ev container.Event) {
		if ends(ev.Type) {
			n.tell("observer", time.Time{})
		}
	}}, engine)
	if err != nil {
		b.Fatal(err)
	}
	sched := scheduler.New(scheduler.Options{})
	services := microservice.Microservices(tracker)
	watch := services.Watch
	services.Watch = func(ctx context.Context, notify func(...scheduler.Key)) error {
		return watch(ctx, func(keys ...scheduler.Key) {
			n.tell("notified", time.Time{})
			notify(keys...)
		})
	}
	if _, err := scheduler.Register(sched, services); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	n.stop = func() { cancel(); running.Wait() }
	ready := make(chan struct{})
	running.Go(func() { _ = tracker.Run(ctx) })
	running.Go(func() { _ = sched.Run(ctx) })
	running.Go(func() {
		_ = bare.Events(ctx, func() { close(ready) }, func(h container.Hint) {
			if ends(h.Says) {
				n.tell("raw", h.At)
			}
		})
	})
	running.Go(func() {
		w := sched.Watch()
		defer w.Stop()
		for {
			changes, _, err := w.Next(ctx)
			if err != nil {
				return
			}
			for _, c := range changes {
				if c.Key == scheduler.Key(models.MicroserviceKey("web")) {
					n.tell("known", time.Time{})
				}
			}
		}
	})
	<-ready
	if err := tracker.WaitSynced(ctx); err != nil {
		b.Fatal(err)
	}
	return n
}

func dial(b testing.TB, e *dockertest.Engine) *docker.Engine {
	b.Helper()
	engine, err := docker.New(e.Host)
	if err != nil {
		b.Fatal(err)
	}
	return engine
}

func (n *notices) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.first, n.all, n.at = map[string]time.Time{}, make(chan struct{}), time.Time{}
}

// tell notes that somebody was told; at is the engine's time, if it is known.
func (n *notices) tell(who string, at time.Time) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.first == nil || !n.first[who].IsZero() {
		return
	}
	n.first[who] = now
	if !at.IsZero() {
		n.at = at
	}
	if len(n.first) == len(told) {
		close(n.all)
	}
}

func (n *notices) await(b *testing.B) {
	select {
	case <-n.all:
	case <-time.After(2 * time.Minute):
		b.Fatalf("told were only %v", n.first)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for who, at := range n.first {
		n.took[who] = append(n.took[who], at.Sub(n.at))
	}
	n.first = nil
}

func (n *notices) report(b *testing.B) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for _, who := range told {
		took := slices.Sorted(slices.Values(n.took[who]))
		b.ReportMetric(ms(took[len(took)/2]), who+"-p50-ms")
		b.ReportMetric(ms(took[len(took)*9/10]), who+"-p90-ms")
	}
	b.ReportMetric(0, "ns/op")
}
