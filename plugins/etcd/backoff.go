package etcd

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces attempts: it doubles up to max, with a fifth of it random, so
// that many agents do not return to a cluster at the same moment.
type backoff struct {
	min, max time.Duration
	next     time.Duration
}

func (b *backoff) reset() { b.next = 0 }

// wait pauses; it ends early with ctx or when somebody wakes it.
func (b *backoff) wait(ctx context.Context, wake <-chan struct{}) {
	b.next = min(max(2*b.next, b.min), b.max)
	d := b.next - time.Duration(rand.Int64N(int64(b.next)/5+1))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
}
