package ipam

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/plumb-net/plumb/scheduler"
)

// news are keys to tell the scheduler of. It hears of them before the operation ends that
// is the reason: what waits for a lease is never seen at rest with the lease on its way.
type news struct {
	mu     sync.Mutex
	notify func(...scheduler.Key) // nil: nobody watches
	keys   map[scheduler.Key]bool // nobody was told of these
}

func (n *news) add(keys ...scheduler.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notify != nil {
		if len(keys) > 0 {
			n.notify(keys...)
		}
		return
	}
	if n.keys == nil {
		n.keys = map[scheduler.Key]bool{}
	}
	for _, k := range keys {
		n.keys[k] = true
	}
}

// watch is the Watch of a kind. notify never blocks.
func (n *news) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	n.mu.Lock()
	if len(n.keys) > 0 {
		notify(slices.Sorted(maps.Keys(n.keys))...)
		clear(n.keys)
	}
	n.notify = notify
	n.mu.Unlock()
	<-ctx.Done()
	n.mu.Lock()
	n.notify = nil
	n.mu.Unlock()
	return ctx.Err()
}
