package forward

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/scheduler"
)

func (d *forward) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return owned.Poll(ctx, d.Poll, owned.Every, d.moved, notify)
}

// moved are all keys if anybody has changed a firewall since the last time.
func (d *forward) moved(ctx context.Context) []scheduler.Key {
	keys := d.held.All()
	if len(keys) == 0 {
		return nil
	}
	now, err := d.Firewalls.Signature(ctx, d.Kernel.Own())
	if err == nil && now == d.last {
		return nil
	}
	d.last = now
	slices.Sort(keys)
	return keys
}
