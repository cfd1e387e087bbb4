package scheduler

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// History returns copies of the records kept, oldest first. It does not ask
// the loop, so it works at any time, also after the end.
//
// A record that is asked for by its number tells also what it changed; that
// asks the loop to compare values, while there is one.
func (s *Scheduler) History(q HistoryQuery) []Record {
	out := s.hist.Query(q)
	if q.Seq != 0 && len(out) == 1 {
		s.changedBy(&out[0])
	}
	return out
}

// changedBy fills in what the transaction of a record changed.
func (s *Scheduler) changedBy(r *Record) {
	if r.Earlier {
		r.Changed = slices.Clone(r.Changed)
		_ = s.call(func(l *loop) { l.decode(r.Changed) })
		return
	}
	r.Changed = s.netted(s.hist.ChangedBy(r.Seq))
}

// At returns how the keys under the prefixes stood at a time, sorted; see
// [Scheduler.List] for prefixes and for what is left out. The statuses have
// what history keeps: Key, State, Desired, Actual and Origin. The error is a
// *HistoryError for a time before what is kept, or one of List; without any
// history there is another.
func (s *Scheduler) At(ctx context.Context, t time.Time, prefixes ...Key) ([]Status, error) {
	if err := s.hist.Since(t); err != nil {
		return nil, err
	}
	keys, err := s.standing(ctx, prefixes)
	if err != nil {
		return nil, err
	}
	if err := s.hist.GoBack(t, keys, prefixes); err != nil { // after the list, so that nothing falls between
		return nil, err
	}
	return statusesOf(keys), nil
}

// standing is how the keys stand now. It is taken in pages, as in List.
func (s *Scheduler) standing(ctx context.Context, prefixes []Key) (map[Key]Moment, error) {
	all, err := s.List(ctx, prefixes...)
	if err != nil {
		return nil, err
	}
	keys := make(map[Key]Moment, len(all))
	for _, st := range all {
		keys[st.Key] = Moment{State: st.State, Desired: st.Desired, Actual: st.Actual, Origin: st.Origin}
	}
	return keys, nil
}

func statusesOf(keys map[Key]Moment) []Status {
	out := make([]Status, 0, len(keys))
	for k, m := range keys {
		if m.State != Absent && m.State != Removed {
			out = append(out, Status{Key: k, State: m.State, Desired: m.Desired, Actual: m.Actual, Origin: m.Origin})
		}
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// Changes returns what changed under the prefixes after one time and until
// another, sorted by key; the zero time as to means now. What came back to
// what it was is left out. The error is a *HistoryError for a time before what
// is kept; without any history there is another. ctx is not looked at.
func (s *Scheduler) Changes(ctx context.Context, from, to time.Time, prefixes ...Key) ([]KeyChange, error) {
	_ = s.call(func(*loop) {}) // so that a caller reads what it wrote
	if err := s.hist.Since(from); err != nil {
		return nil, err
	}
	out, err := s.hist.Between(from, to, prefixes)
	return s.netted(out), err
}

// netted takes out what came back to what it was. The kinds compare their
// values in the loop, some at a time.
func (s *Scheduler) netted(changes []KeyChange) (left []KeyChange) {
	for page := range slices.Chunk(changes, pageSize) {
		net := func(l *loop) {
			for _, c := range page {
				if c.Net(l.wishesDiffer, l.differ) {
					left = append(left, c)
				}
			}
		}
		if s.call(net) != nil {
			net(s.l) // the loop has ended; nobody else uses it
		}
	}
	return left
}

// differ reports whether two values of a key are different to its kind.
func (l *loop) wishesDiffer(key Key, a, b any) bool {
	return kind.DesiredDiffer(l.Kinds.Find(key), key, a, b)
}

func (l *loop) differ(key Key, a, b any) bool { return kind.Differ(l.Kinds.Find(key), key, a, b) }

// Blame tells which transaction asked for what is wanted of a key, what made
// the thing that is there, and the last failures. A key of which nothing is
// kept and nothing known is ErrUnknownKey, or ErrStopped after the end. ctx is not
// looked at.
func (s *Scheduler) Blame(ctx context.Context, k Key) (Blame, error) {
	_, unknown := s.Get(ctx, k) // also, a caller reads what it wrote
	b := s.hist.Blame(k)
	if unknown != nil && b.Unknown() {
		return b, unknown
	}
	return b, nil
}

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
