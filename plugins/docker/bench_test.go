package docker_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	client "github.com/fsouza/go-dockerclient"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/docker"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
)

// engineOf starts an engine with as many containers of a command that were
// created, and nothing more.
func engineOf(b *testing.B, n int, cmd ...string) (*dockertest.Engine, *client.Client) {
	b.Helper()
	e := dockertest.Start(b)
	c, err := client.NewClient(e.Host)
	if err != nil {
		b.Fatal(err)
	}
	c.SkipServerVersionCheck = true
	for i := range n {
		_, err := c.CreateContainer(client.CreateContainerOptions{Name: fmt.Sprint("c", i),
			Config: &client.Config{Image: dockertest.Image, Cmd: cmd}, HostConfig: &client.HostConfig{NetworkMode: "none"}})
		if err != nil {
			b.Fatal(err)
		}
	}
	return e, c
}

// startTracker runs a tracker until stop is called.
func startTracker(b *testing.B, host string, o container.Options) (t *container.Tracker, stop func()) {
	b.Helper()
	engine, err := docker.New(host)
	if err != nil {
		b.Fatal(err)
	}
	t, err = container.New(o, engine)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- t.Run(ctx) }()
	return t, func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkColdStart measures from nothing to the first whole picture of 200
// containers, and the same list and inspects without a tracker.
func BenchmarkColdStart(b *testing.B) {
	e, _ := engineOf(b, 200, "sleep", "1000")
	var ours, floor time.Duration
	for b.Loop() {
		began := time.Now()
		inspectAll(b, e.Host)
		floor += time.Since(began)
		began = time.Now()
		t, stop := startTracker(b, e.Host, container.Options{})
		if err := t.WaitSynced(b.Context()); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(began)
		stop()
	}
	b.ReportMetric(float64(ours.Milliseconds())/float64(b.N), "ms")
	b.ReportMetric(float64(floor.Milliseconds())/float64(b.N), "floor-ms")
	b.ReportMetric(float64(ours)/float64(floor), "x-floor")
	b.ReportMetric(0, "ns/op")
}

// inspectAll is the floor: one list, and all inspects with 16 at once.
func inspectAll(b *testing.B, host string) {
	engine, err := docker.New(host)
	if err != nil {
		b.Fatal(err)
	}
	all, err := engine.List(b.Context())
	if err != nil || len(all) < 200 {
		b.Fatal(len(all), err)
	}
	ids := make(chan string)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for id := range ids {
				if _, err := engine.Inspect(b.Context(), id); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, s := range all {
		ids <- s.ID
	}
	close(ids)
	workers.Wait()
}

// BenchmarkIdle measures what 200 containers cost that have ended: the processor
// time of a list, of which there is one in 30 s.
func BenchmarkIdle(b *testing.B) {
	e, c := engineOf(b, 200, "true")
	runAll(b, c)
	t, stop := startTracker(b, e.Host, container.Options{Relist: time.Hour})
	defer stop()
	if err := t.WaitSynced(b.Context()); err != nil {
		b.Fatal(err)
	}
	before := t.Runtimes()[0].Inspects
	cpu := -processorTime(b)
	for b.Loop() {
		if c, err := t.Since(b.Context(), "nobody", time.Now()); c != nil || err != nil {
			b.Fatal(c, err)
		}
	}
	cpu += processorTime(b)
	perList := cpu.Seconds() / float64(b.N)
	b.ReportMetric(perList*1000, "cpu-ms/list")
	b.ReportMetric(perList/30*100, "%core")
	b.ReportMetric(float64(t.Runtimes()[0].Inspects-before), "inspects")
	b.ReportMetric(0, "ns/op")
}

// runAll starts all containers and waits for their ends.
func runAll(b *testing.B, c *client.Client) {
	b.Helper()
	all, err := c.ListContainers(client.ListContainersOptions{All: true})
	if err != nil {
		b.Fatal(err)
	}
	free := make(chan struct{}, 8)
	var running sync.WaitGroup
	for _, one := range all {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			err := c.StartContainer(one.ID, nil)
			if err == nil {
				_, err = c.WaitContainer(one.ID)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	running.Wait()
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
