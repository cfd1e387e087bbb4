package events

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
)

// TestRuntimes: what is told of a runtime that comes, breaks off, is lost, comes
// back as another version and is gone for good.
func TestRuntimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{}, nil, 0)
		var now atomic.Pointer[container.RuntimeHealth]
		now.Store(&container.RuntimeHealth{Runtime: "docker", State: "starting"})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			l.FollowRuntimes(ctx, func() []container.RuntimeHealth { return []container.RuntimeHealth{*now.Load()} })
			close(done)
		}()
		upTo := uint64(0)
		for _, step := range []struct {
			state, reason, version string
			connects               int
			want                   string
		}{
			{"starting", "", "", 0, ""},
			{"unknown", "no answer", "", 0, "runtime_lost no answer"},
			{"unknown", "still none", "", 0, ""},
			{"reading", "", "20.10", 1, ""},
			{"known", "", "20.10", 1, "runtime_connected 20.10"},
			{"known", "", "20.10", 1, ""},
			{"known", "", "20.10", 2, "runtime_lost its stream of events ended; runtime_connected 20.10"},
			{"unknown", "gone", "20.10", 2, "runtime_lost gone"},
			{"known", "", "24.0", 3, "runtime_connected 24.0; runtime_version 24.0"},
			{"known", "", "24.0", 3, ""},
			{"absent", "no socket", "24.0", 3, "runtime_absent no socket"},
			{"stopped", "", "24.0", 3, ""},
		} {
			time.Sleep(glance / 2)
			synctest.Wait()
			now.Store(&container.RuntimeHealth{Runtime: "docker",
				State: step.state, Reason: step.reason, Version: step.version, Connects: step.connects})
			time.Sleep(glance / 2)
			synctest.Wait()
			var got []string
			found, last := l.Query(Query{After: upTo})
			for _, e := range found {
				got = append(got, strings.TrimSpace(fmt.Sprint(e.Type, " ", e.Detail)))
			}
			upTo = last
			if text := strings.Join(got, "; "); text != step.want {
				t.Errorf("%s: %s, want %s", step.state, text, step.want)
			}
		}
		cancel()
		<-done
	})
}
