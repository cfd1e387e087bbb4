package forward

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/descriptors/watch"
	"github.com/plumb-net/plumb/scheduler"
)

// every is how often the firewalls are asked for changes.
const every = 10 * time.Second

func (d *forward) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return watch.Poll(ctx, d.Poll, every, d.moved, notify)
}

// moved are all keys if anybody has changed a firewall since the last time.
func (d *forward) moved(ctx context.Context) []scheduler.Key {
	d.mu.Lock()
	keys, last := slices.Sorted(maps.Keys(d.held)), d.last
	d.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	now, err := d.Firewalls.Signature(ctx, d.Kernel.Own())
	if err == nil && now == last {
		return nil
	}
	d.mu.Lock()
	d.last = now
	d.mu.Unlock()
	return keys
}
