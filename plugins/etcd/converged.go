package etcd

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/fleet/record"
	"github.com/plumb-net/plumb/scheduler"
)

// convergence follows the transactions of the source until they are settled.
type convergence struct {
	at milestone

	mu      sync.Mutex // guards what follows
	waiting []submitted
	moved   time.Time // when the last transaction came or was settled
	more    chan struct{}
}

// submitted is a transaction of a revision; its handle is nil if nothing had to be told.
type submitted struct {
	rev    int64
	handle *scheduler.Handle
}

func newConvergence() convergence { return convergence{more: make(chan struct{}, 1)} }

// add follows one more transaction, in the order of their submission.
func (c *convergence) add(rev int64, h *scheduler.Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, submitted{rev, h})
	c.moved = time.Now()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *convergence) take() []submitted {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.waiting
	c.waiting = nil
	return out
}

func (c *convergence) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = time.Now()
}

// underWay reports whether transactions come and are settled. One that waits for an
// operation that hangs does not count.
func (c *convergence) underWay() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.moved) < time.Second
}

// run moves the milestone until ctx ends.
func (c *convergence) run(ctx context.Context) {
	for {
		for _, s := range c.take() {
			if s.handle != nil && !settles(ctx, s.handle) {
				return // the scheduler has ended, or we do
			}
			c.at.set(s.rev) // back too: another store starts low
			c.done()
		}
		select {
		case <-ctx.Done():
			return
		case <-c.more:
		}
	}
}

// settles waits until a transaction is settled. It goes on being waited for when we end.
func settles(ctx context.Context, h *scheduler.Handle) bool {
	select {
	case <-ctx.Done():
		return false
	case <-h.Done():
	}
	_, err := h.Wait(ctx)
	return err == nil
}

// tellConverged keeps the store told of the milestone until ctx ends, at most once per
// pause: a store serves many agents.
func (p *Plugin) tellConverged(ctx context.Context) {
	const pause = time.Second
	for wrote := int64(0); ctx.Err() == nil; {
		rev, moved := p.source.converged.at.next()
		if rev == wrote {
			select {
			case <-ctx.Done():
				return
			case <-moved:
				continue
			}
		}
		if p.writeConverged(ctx, rev) == nil {
			wrote = rev
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (p *Plugin) writeConverged(ctx context.Context, rev int64) error {
	value, err := json.Marshal(record.Converged{Revision: rev, Time: time.Now().UTC().Truncate(time.Millisecond), Incarnation: p.cfg.Incarnation})
	if err != nil {
		return err
	}
	return p.presence.write(ctx, p.current(), []clientv3.Op{clientv3.OpPut(p.cfg.prefix()+record.ConvergedKey, string(value))})
}

// Converged is up to which revision the intent was carried out; 0 if there is none yet.
func (p *Plugin) Converged() int64 { return p.source.converged.at.get() }
