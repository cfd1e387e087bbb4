package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pinged is an engine that can be asked whether it answers.
type pinged struct{ *engine }

func (p pinged) Ping(ctx context.Context) error { return p.enter(ctx) }

// outage has a tracker of an engine with ten containers.
func outage(t *testing.T, play func(e *engine, tr *Tracker)) (log string) {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		for i := range 10 {
			id := fmt.Sprint("c", i)
			e.create(newContainer([]string{id}))
			e.start(id)
		}
		tr, err := New(Options{Processes: e, Log: slog.New(slog.NewTextHandler(&out, nil)), Spread: func() float64 { return 0.5 }}, pinged{e})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- tr.Run(ctx) }()
		time.Sleep(time.Second)
		play(e, tr)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return out.String()
}

// TestFrozenShows: an engine that keeps its stream open and says nothing shows
// within ten seconds, whenever the next list is due; and so does that it goes on.
func TestFrozenShows(t *testing.T) {
	outage(t, func(e *engine, tr *Tracker) {
		time.Sleep(2 * time.Second)
		e.set(func() { e.hung = true })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if h := tr.Health()[0]; h.State != "down" {
			t.Errorf("frozen for ten seconds: %+v", h)
		}
		e.set(func() { e.hung = false })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if h := tr.Health()[0]; h.State != "ok" {
			t.Errorf("ten seconds after it went on: %+v", h)
		}
	})
}

// TestOneLine: an outage of the engine is a matter of the engine in the log, and
// not of each of its containers; what fails for one is.
func TestOneLine(t *testing.T) {
	log := outage(t, func(e *engine, _ *Tracker) {
		e.set(func() { // inspects fail before anybody knows that the engine is away
			e.prompt, e.down = true, true
			for i := range 10 {
				e.tell(Hint{ID: fmt.Sprint("c", i)})
			}
		})
		synctest.Wait()
		e.cut()
		time.Sleep(5 * time.Minute)
		e.set(func() { e.down = false })
		time.Sleep(5 * time.Minute)
		e.set(func() {
			e.badInspect["c3"] = errors.New("layer is broken")
			e.tell(Hint{ID: "c3"})
		})
		time.Sleep(5 * time.Minute)
	})
	if n := strings.Count(log, "container cannot be inspected"); n != 1 || !strings.Contains(log, "docker:c3") {
		t.Errorf("%d lines about containers:\n%s", n, log)
	}
	if n := strings.Count(log, "state=unknown"); n != 1 {
		t.Errorf("%d lines about the engine:\n%s", n, log)
	}
}
