package sysctl

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/scheduler"
)

func (d *sysctl) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return owned.Poll(ctx, d.Poll, owned.Every, d.moved, notify)
}

// moved are the keys whose setting is not as it is believed to be, sorted.
func (d *sysctl) moved(context.Context) (moved []scheduler.Key) {
	for _, h := range d.have.All() {
		if value, err := d.get(h.at, h.value); err != nil || !same(value, h.value) {
			moved = append(moved, h.key)
		}
	}
	slices.Sort(moved)
	return moved
}
