package sysctl

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/descriptors/watch"
	"github.com/plumb-net/plumb/scheduler"
)

// every is how often the settings are read.
const every = 10 * time.Second

func (d *sysctl) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return watch.Poll(ctx, d.Poll, every, d.moved, notify)
}

// moved are the keys whose setting is not as it is believed to be, sorted.
func (d *sysctl) moved(context.Context) (moved []scheduler.Key) {
	d.mu.Lock()
	have := maps.Clone(d.have)
	d.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(have)) {
		h := have[k]
		if value, err := d.get(h.at, h.value); err != nil || !same(value, h.value) {
			moved = append(moved, k)
		}
	}
	return moved
}
