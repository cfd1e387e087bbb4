package scheduler

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Encoded is a value as its kind encodes it; see Descriptor.Encode.
type Encoded []byte

// Follower reads the history as it grows, to keep it elsewhere. It holds up
// nobody: what it does not read in time is missed.
type Follower struct {
	s       *Scheduler
	wake    chan struct{}
	version uint64         // of the history, when it was read last
	next    uint64         // the number of the change to read next
	steps   map[uint64]int // of records that may grow: how many steps were read
}

// Follow begins to read the history from its beginning. One goroutine reads a
// follower; it ends with the scheduler.
func (s *Scheduler) Follow() *Follower {
	f := &Follower{s: s, wake: make(chan struct{}, 1), steps: map[uint64]int{}}
	s.hist.mu.Lock()
	s.hist.followers = append(s.hist.followers, f)
	s.hist.mu.Unlock()
	return f
}

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
		if out := f.read(); len(out) > 0 {
			return out, nil
		}
		if ended {
			return nil, ErrStopped
		}
		select {
		case <-f.wake:
		case <-f.s.stopped:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// read takes what is new.
func (f *Follower) read() []Record {
	h := &f.s.hist
	v := h.view()
	defer h.release()
	out := f.records()
	changed := map[uint64][]*change{}
	for c := range v.from(f.next) {
		if c.cause != 0 { // the first look is no transaction
			changed[c.cause] = append(changed[c.cause], c)
		}
	}
	missed := int(max(v.first, f.next) - f.next)
	f.next = v.next
	for i := range out {
		out[i].Changed = f.s.sum(slices.Values(changed[out[i].Seq]))
		delete(changed, out[i].Seq)
	}
	for seq, cs := range changed {
		out = append(out, Record{Seq: seq, Changed: f.s.sum(slices.Values(cs))})
	}
	slices.SortFunc(out, func(a, b Record) int { return int(a.Seq) - int(b.Seq) })
	if len(out) > 0 {
		out[0].Missed = missed
	}
	f.encode(out)
	return out
}

// records are copies of those that are new or have grown.
func (f *Follower) records() (out []Record) {
	h := &f.s.hist
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.records {
		if r.version <= f.version || r.Earlier {
			continue
		}
		c := r.clone()
		if n, known := f.steps[r.Seq]; known {
			c.Asked, c.Planned, c.Done = nil, nil, c.Done[n:]
		}
		f.steps[r.Seq] = len(r.Done)
		out = append(out, c)
	}
	f.version = h.version
	if len(h.records) > 0 {
		for seq := range f.steps {
			if seq < h.records[0].Seq {
				delete(f.steps, seq)
			}
		}
	}
	return out
}

// encode replaces values by what their kinds make of them; what cannot be
// encoded is left out.
func (f *Follower) encode(records []Record) {
	var kinds []*kind
	if f.s.call(func(e *engine) { kinds = slices.Clone(e.kinds.all()) }) != nil {
		kinds = f.s.e.kinds.all() // the loop has ended
	}
	find := func(k Key) *kind {
		i := slices.IndexFunc(kinds, func(d *kind) bool { return kv.Under(k, []Key{d.Prefix}) })
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

func encoded(k *kind, v any) any {
	if v == nil || k == nil || k.encode == nil {
		return nil
	}
	b, err := encodeValue(k, v)
	if err != nil {
		return nil
	}
	return Encoded(b)
}

// decode is the reverse, for records of earlier runs. What nobody can decode
// stays as it is.
func (e *engine) decode(changed []KeyChange) {
	for i := range changed {
		c := &changed[i]
		k := e.kinds.find(c.Key)
		for _, v := range []*any{&c.Before.Desired, &c.Before.Actual, &c.After.Desired, &c.After.Actual} {
			if b, ok := (*v).(Encoded); ok && k != nil && k.decode != nil {
				if value, err := k.decode(b); err == nil {
					*v = value
				}
			}
		}
	}
}

// grown tells that the history has grown. The lock is held.
func (h *history) grown() {
	for _, f := range h.followers {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// changedBy fills in what the transaction of a record changed.
func (s *Scheduler) changedBy(r *Record) {
	if r.Earlier {
		r.Changed = slices.Clone(r.Changed)
		_ = s.call(func(e *engine) { e.decode(r.Changed) })
		return
	}
	v := s.hist.view()
	defer s.hist.release()
	r.Changed = s.netted(s.sum(func(yield func(*change) bool) {
		for c := range v.from(0) {
			if c.cause == r.Seq && !yield(c) {
				return
			}
		}
	}))
}

// earlier takes in records of earlier runs.
func (h *history) earlier(records []Record) (last uint64) {
	for i := range records {
		r := records[i]
		r.Earlier = true
		h.add(&r)
		last = max(last, r.Seq)
	}
	return last
}
