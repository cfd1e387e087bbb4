package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/models"
)

// TestDownFor: only a store that is down for long, and all that time, ends the wait.
func TestDownFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := models.Health{Name: "etcd", State: "down", Reason: "nobody answers"}
		failed := downFor(10*time.Second, func() models.Health { return h })
		for _, step := range []struct {
			state string
			wait  time.Duration
			ends  bool
		}{{"down", 0, false}, {"down", 9 * time.Second, false}, {"starting", time.Second, false}, {"down", time.Minute, false}, {"down", 9 * time.Second, false}, {"down", time.Second, true}} {
			time.Sleep(step.wait)
			h.State = step.state
			if err := failed(); (err != nil) != step.ends {
				t.Errorf("%v after %s: %v", step.state, step.wait, err)
			} else if err != nil && (!errors.Is(err, ErrNotConfigured) || !strings.Contains(err.Error(), "etcd is down: nobody answers")) {
				t.Error(err)
			}
		}
	})
}
