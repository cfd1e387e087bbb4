package events

import (
	"context"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
)

// glance is how often it is looked how the runtimes stand.
const glance = time.Second

// FollowRuntimes tells of runtimes that come and go, by looking how they stand,
// until ctx ends.
func (l *Log) FollowRuntimes(ctx context.Context, runtimes func() []container.RuntimeHealth) {
	seen := map[string]standing{}
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		for _, h := range runtimes() {
			seen[h.Runtime] = l.stand(seen[h.Runtime], h)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// standing is how a runtime stood by the last event.
type standing struct {
	told     Type
	version  string
	connects int
}

// stand tells what is new of a runtime.
func (l *Log) stand(was standing, h container.RuntimeHealth) standing {
	now := was
	tell := func(t Type, detail string) {
		now.told = t
		l.AddDetail(container.Event{Type: t, Runtime: h.Runtime}, detail)
	}
	switch h.State {
	case "known":
		if was.told == RuntimeConnected && h.Connects > was.connects {
			tell(RuntimeLost, "its stream of events ended")
		}
		if now.told != RuntimeConnected {
			tell(RuntimeConnected, h.Version)
		}
		if was.version != "" && h.Version != "" && h.Version != was.version {
			tell(RuntimeVersion, h.Version)
			now.told = RuntimeConnected
		}
		now.version, now.connects = h.Version, h.Connects
	case "unknown":
		if was.told != RuntimeLost {
			tell(RuntimeLost, h.Reason)
		}
	case "absent":
		if was.told != RuntimeAbsent {
			tell(RuntimeAbsent, h.Reason)
		}
	}
	return now
}
