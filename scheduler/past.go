package scheduler

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/kind"
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
				if c.Net(l.differ) {
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
