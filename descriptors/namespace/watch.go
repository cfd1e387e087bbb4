package namespace

import (
	"context"
	"time"

	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/scheduler"
)

// poll is how often the namespaces that are needed are looked at. The kernel
// tells nobody of a process that starts or of a bind mount, so there is nothing
// better for their coming; their end is known at once by the kernel's events.
const poll = time.Second

func (d *observer) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return owned.Poll(ctx, d.opts.Poll, poll, d.moved, notify)
}

// moved returns the keys whose namespace is not the one last seen.
func (d *observer) moved(context.Context) []scheduler.Key {
	var moved []scheduler.Key
	for _, k := range d.keys() {
		_, path, _ := d.file(k)
		inode := d.behind(path)
		d.mu.Lock()
		if s := d.wanted[k]; s != nil && s.inode != inode {
			moved = append(moved, k)
		}
		d.mu.Unlock()
	}
	return moved
}
