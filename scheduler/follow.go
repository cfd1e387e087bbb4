package scheduler

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Follower reads the history as it grows, to keep it elsewhere. It holds up
// nobody: what it does not read in time is missed.
type Follower struct {
	s *Scheduler
	r *history.Reader
}

// Follow begins to read the history from its beginning. One goroutine reads a
// follower; it ends with the scheduler.
func (s *Scheduler) Follow() *Follower { return &Follower{s, s.hist.NewReader()} }

// Next blocks until the history has grown and returns what is new: records
// with the steps and changes that were not returned before, values encoded. A
// record may come again with more of both. Record.Missed counts changes that
// were let go before they were read. At the end it returns what is left, then
// ErrStopped.
func (f *Follower) Next(ctx context.Context) ([]Record, error) {
	for {
		ended := false
		select {
		case <-f.s.stopped:
			ended = true
		default:
		}
		if out := f.r.Read(); len(out) > 0 {
			f.encode(out)
			return out, nil
		}
		if ended {
			return nil, ErrStopped
		}
		select {
		case <-f.r.Grown():
		case <-f.s.stopped:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// encode replaces values by what their kinds make of them; what cannot be
// encoded is left out.
func (f *Follower) encode(records []Record) {
	var kinds []*kind.Kind
	if f.s.call(func(l *loop) { kinds = slices.Clone(l.Kinds.All()) }) != nil {
		kinds = f.s.l.Kinds.All() // the loop has ended
	}
	find := func(k Key) *kind.Kind {
		i := slices.IndexFunc(kinds, func(d *kind.Kind) bool { return kv.Under(k, []Key{d.Prefix}) })
		if i < 0 {
			return nil
		}
		return kinds[i]
	}
	for _, r := range records {
		for i := range r.Changed {
			c := &r.Changed[i]
			k := find(c.Key)
			for _, v := range []*any{&c.Before.Desired, &c.Before.Actual, &c.After.Desired, &c.After.Actual} {
				*v = encoded(k, *v)
			}
		}
	}
}

func encoded(k *kind.Kind, v any) any {
	if v == nil || k == nil || k.Encode == nil {
		return nil
	}
	b, err := kind.EncodeValue(k, v)
	if err != nil {
		return nil
	}
	return Encoded(b)
}

// decode is the reverse, for records of earlier runs. What nobody can decode
// stays as it is.
func (l *loop) decode(changed []KeyChange) {
	for i := range changed {
		c := &changed[i]
		k := l.Kinds.Find(c.Key)
		for _, v := range []*any{&c.Before.Desired, &c.Before.Actual, &c.After.Desired, &c.After.Actual} {
			if b, ok := (*v).(Encoded); ok && k != nil && k.Decode != nil {
				if value, err := k.Decode(b); err == nil {
					*v = value
				}
			}
		}
	}
}
