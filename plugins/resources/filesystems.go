package resources

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/resources/disk"
)

const (
	// How long at least, and at most, what is known of file systems is taken for what it
	// is; and how much of the time one container's layer may be walked.
	fullAtLeast, fullAtMost = time.Minute, 10 * time.Minute
	walkShare               = 100
)

// filesystems is how full those of a series are, and when to look again.
type filesystems struct {
	all  []disk.Usage
	due  time.Time
	wait time.Duration
}

// measure looks how full file systems are until ctx ends: apart from all else, since a disk
// may be slow and a walk takes long. One after the other.
func (c *Collector) measure(ctx context.Context) {
	runtime.LockOSThread() // for good: the thread ends with us
	disk.Idle()
	for ctx.Err() == nil {
		s, of, wait := c.nextFull()
		if s == nil {
			select {
			case <-ctx.Done():
			case <-c.came:
			case <-time.After(wait):
			}
			continue
		}
		began := c.now()
		all, err := c.look(ctx, of)
		if ctx.Err() == nil {
			c.measured(s, all, err, c.now().Sub(began))
		}
	}
}

// look walks the layer of a container, or asks how full the file systems of the machine
// are.
func (c *Collector) look(ctx context.Context, of *models.Container) ([]disk.Usage, error) {
	if of == nil {
		return c.host.filesystems()
	}
	u, err := c.host.layer(ctx, int(of.Pid), of.Netns)
	return []disk.Usage{u}, err
}

// nextFull is the series of which to look at the file systems now, and the container that it
// is of; nil if there is none for so long.
func (c *Collector) nextFull() (next *series, of *models.Container, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	take := func(s *series) {
		if s != nil && s.live() && (next == nil || s.full.due.Before(next.full.due)) {
			next = s
		}
	}
	take(c.cgroups["/"])
	for _, s := range c.all {
		take(s)
	}
	if next == nil {
		return nil, nil, fullAtLeast
	}
	if wait = next.full.due.Sub(c.now()); wait > 0 {
		return nil, nil, wait
	}
	return next, next.container, 0
}

// measured takes in what was found, in which time. Where nothing changes it is looked more
// and more seldom.
func (c *Collector) measured(s *series, all []disk.Usage, err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &s.full
	switch {
	case err != nil: // as if it had none; it may have ended
		f.all, f.wait = nil, fullAtMost
	case s.container != nil && slices.EqualFunc(f.all, all, sameUse):
		f.wait = min(2*f.wait, fullAtMost)
	default:
		f.wait = fullAtLeast
	}
	if err == nil {
		f.all = all
	}
	f.due = c.now().Add(max(f.wait, min(walkShare*took, time.Hour)))
}

// sameUse reports whether a container takes as much as before.
func sameUse(a, b disk.Usage) bool { return a.Used == b.Used && a.InodesUsed == b.InodesUsed }
