package kubernetes

import (
	"context"
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
