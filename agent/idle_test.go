package agent

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/microservice"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
	"github.com/plumb-net/plumb/plugins/events"
	"github.com/plumb-net/plumb/scheduler"
)

var idle = flag.Int("idle", 500, "how many containers run in BenchmarkIdleRunning")

// BenchmarkIdleRunning measures what containers cost that run and do nothing: the
// processor time of the tracker, with its stream and a list every 10 s, of the
// watcher of kills, of the log of events and of the scheduler that knows them all.
func BenchmarkIdleRunning(b *testing.B) {
	e := dockertest.Start(b)
	runMany(b, e, *idle)
	rec, err := newRecorder(events.New(events.Limits{}, nil, 0), func(container.OOMKill) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	tracker, err := container.New(container.Options{Observer: rec.observe, Relist: 10 * time.Second}, dial(b, e))
	if err != nil {
		b.Fatal(err)
	}
	sched := scheduler.New(scheduler.Options{})
	if _, err := scheduler.Register(sched, microservice.Containers(tracker)); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	running.Go(func() { _ = rec.run(ctx, tracker.Runtimes) })
	running.Go(func() { _ = tracker.Run(ctx) })
	running.Go(func() { _ = sched.Run(ctx) })
	if err := tracker.WaitSynced(b.Context()); err != nil {
		b.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	before := tracker.Runtimes()[0]
	cpu, began := -processorTime(b), time.Now()
	for b.Loop() {
		time.Sleep(10 * time.Second)
	}
	cpu += processorTime(b)
	after := tracker.Runtimes()[0]
	b.ReportMetric(float64(after.Running), "running")
	b.ReportMetric(100*cpu.Seconds()/time.Since(began).Seconds(), "%core")
	b.ReportMetric(float64(after.Lists-before.Lists), "lists")
	b.ReportMetric(float64(after.Inspects-before.Inspects), "inspects")
	b.ReportMetric(0, "ns/op")
}

// runMany starts containers that sleep.
func runMany(b *testing.B, e *dockertest.Engine, many int) {
	b.Helper()
	c := e.Churn(b, many)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := w; i < many; i += 8 {
				var made struct{ ID string }
				err := c.Call(b.Context(), "POST", "containers/create", map[string]any{
					"Image": dockertest.Image, "Cmd": []string{"sleep", "100000"}, "StopSignal": "KILL",
					"Env": []string{fmt.Sprint("MICROSERVICE_LABEL=s", i)}, "HostConfig": map[string]any{"NetworkMode": "none"},
				}, &made)
				if err == nil {
					err = c.Call(b.Context(), "POST", "containers/"+made.ID+"/start", nil, nil)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
