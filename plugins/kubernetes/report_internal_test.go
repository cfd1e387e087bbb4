package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// noKeys is an engine that has no statuses, so that each pod is ready.
type noKeys struct{}

func (noKeys) Watch(...scheduler.Key) *scheduler.Watcher { return nil }
func (noKeys) List(context.Context, ...scheduler.Key) ([]scheduler.Status, error) {
	return nil, nil
}
func (noKeys) Why(context.Context, scheduler.Key) (scheduler.Cause, error) {
	return scheduler.Cause{}, nil
}

// TestWritesAreLimited reports 30 pods whose keys change each 10 ms. The API server gets five writes per second, and
// is asked less and less often for a pod whose status it refuses.
func TestWritesAreLimited(t *testing.T) {
	for _, c := range []struct {
		pods  int
		err   error
		limit time.Duration
		want  int
	}{
		{30, nil, 4 * time.Second, 20},
		{1, errors.New("forbidden"), 14 * time.Second, 4}, // at 0, 1, 3 and 7 s
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory()
			h.opts.Engine = noKeys{}
			writes := 0
			r := newReporter(h.Source)
			r.patch = func(context.Context, *Pod, *Status) error { writes++; return c.err }
			for i := range c.pods {
				_ = h.store.Update(h.object(fmt.Sprint("web-", i), "a", `{"interface/a":{"dummy":{}}}`, false))
			}
			h.submit(h.take())
			for end := time.Now().Add(c.limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				for path := range h.Source.pods {
					r.dueAll(path, time.Now())
				}
				r.write(t.Context())
			}
			if writes != c.want {
				t.Errorf("%d writes of %d pods in %s, want %d", writes, c.pods, c.limit, c.want)
			}
		})
	}
}

// flapping is an engine whose keys are in one state, which a test changes.
type flapping struct {
	noKeys
	state scheduler.State
}

func (f *flapping) List(_ context.Context, keys ...scheduler.Key) ([]scheduler.Status, error) {
	return []scheduler.Status{{Key: keys[0], Base: keys[0], State: f.state, Reason: "no such link"}}, nil
}

// TestEventsAreLimited: a pod whose network fails and recovers each five seconds for ten minutes gets six events and
// then one per minute, and the last event is about its last state. A second run of the agent repeats no event.
func TestEventsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, engine := newHistory(), &flapping{}
		h.opts.Engine = engine
		var events []string
		newRun := func() *reporter {
			r := newReporter(h.Source)
			r.patch = func(_ context.Context, _ *Pod, st *Status) error { // the API server then has it
				o := h.object("web", "a", `{"interface/a":{"dummy":{}}}`, false)
				text, err := json.Marshal(st)
				if err != nil {
					t.Fatal(err)
				}
				o.Annotations[StatusAnnotation] = string(text)
				o.Status.Conditions = []condition{st.condition()}
				return h.store.Update(o)
			}
			r.event = func(_ context.Context, _ *Pod, st Status) { events = append(events, st.State) }
			return r
		}
		_ = h.store.Update(h.object("web", "a", `{"interface/a":{"dummy":{}}}`, false))
		h.submit(h.take())
		r := newRun()
		play := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				h.version++
				h.submit(h.take())
				r.dueAll("default/web", time.Now())
				r.write(t.Context())
			}
		}
		for range 60 {
			engine.state = scheduler.Failed
			play(5 * time.Second)
			engine.state = scheduler.Configured
			play(5 * time.Second)
		}
		if n := len(events); n < 10 || n > eventBurst+10 {
			t.Errorf("%d events in ten minutes: %v", n, events)
		}
		engine.state = scheduler.Failed
		play(3 * time.Minute)
		if last := events[len(events)-1]; last != StateFailed {
			t.Errorf("the last event is %s", last)
		}
		before := len(events)
		r = newRun()
		play(2 * time.Minute)
		if len(events) != before {
			t.Errorf("the next run adds the events %v", events[before:])
		}
	})
}
