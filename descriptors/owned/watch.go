package owned

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// Notify tells the scheduler which keys may have changed; without keys, all of the kind.
type Notify = func(keys ...scheduler.Key)

// News is what an event says: of these keys, or of the whole kind.
type News struct {
	Keys []scheduler.Key
	All  bool
}

// NewsOf is the news of some keys, or of none.
func NewsOf(keys ...scheduler.Key) News { return News{Keys: keys} }

// Every is how often the kernel is asked of what it does not tell by events.
const Every = 10 * time.Second

// Events passes on what the kernel's events mean. The zero value works.
type Events struct {
	read atomic.Bool
}

// Read says that the actual state is being read. What was read before the watch is in place must
// be once more.
func (w *Events) Read() { w.read.Store(true) }

// Follow watches the kernel until ctx ends. news says what an event means.
func (w *Events) Follow(ctx context.Context, k kernel.Kernel, news func(kernel.Event) News, notify Notify) error {
	return k.Watch(ctx, func(e kernel.Event) {
		if e.Ready {
			if w.read.Load() {
				notify()
			}
			return
		}
		tell(news(e), notify)
	})
}

// Poll asks which keys have moved at every tick until ctx ends. Without ticks it does
// so every so often, and all that poll do it at the same moments, for waking costs more than
// what each of them does.
func Poll(ctx context.Context, ticks <-chan time.Time, every time.Duration, moved func(context.Context) []scheduler.Key, notify Notify) error {
	if ticks == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(time.Now().Truncate(every).Add(every))):
		}
		t := time.NewTicker(every)
		defer t.Stop()
		ticks = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks:
			tell(NewsOf(moved(ctx)...), notify)
		}
	}
}

func tell(n News, notify Notify) {
	switch {
	case n.All:
		notify()
	case len(n.Keys) > 0:
		notify(n.Keys...)
	}
}
