package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Moment is how a key stood at some time.
type Moment struct {
	State State
	// Desired and Actual are values of the kind's type; nil means none.
	Desired, Actual any
	// Origin is the source whose word counted; "derived" for what another
	// value brought with it.
	Origin string
}

// KeyChange is what changed of a key. What did not change is zero in both
// moments.
type KeyChange struct {
	Key           Key
	Before, After Moment
	// Seq is the transaction that changed it last, Time when that was.
	Seq  uint64
	Time time.Time
}

// encodedBytes is the size of the values of an earlier run.
func (c *KeyChange) encodedBytes() (n int) {
	for _, v := range []any{c.Before.Desired, c.Before.Actual, c.After.Desired, c.After.Actual} {
		if b, ok := v.(Encoded); ok {
			n += len(b)
		}
	}
	return n
}

// HistoryError refuses a question about a time before the history that is kept.
type HistoryError struct {
	// Earliest is the first time that can be asked for.
	Earliest time.Time
}

// Error names the first time that can be asked for.
func (e *HistoryError) Error() string {
	return "the history that is kept begins at " + e.Earliest.UTC().Format(time.RFC3339Nano) + "; ask for a time from then on"
}

// At returns how the keys under the prefixes stood at a time, sorted; see
// [Scheduler.List] for prefixes and for what is left out. The statuses have
// what history keeps: Key, State, Desired, Actual and Origin. The error is a
// *HistoryError for a time before what is kept, or one of List; without any
// history there is another.
func (s *Scheduler) At(ctx context.Context, t time.Time, prefixes ...Key) ([]Status, error) {
	if _, err := s.viewAt(t); err != nil {
		return nil, err
	}
	s.hist.release() // it was only asked whether there is one
	keys, err := s.standing(ctx, prefixes)
	if err != nil {
		return nil, err
	}
	v, err := s.viewAt(t) // after the list, so that nothing falls between
	if err != nil {
		return nil, err
	}
	defer s.hist.release()
	seen := map[Key]aspects{}
	for c := range v.from(0) {
		if c.at <= t.UnixNano() || c.of&^seen[c.key] == 0 || !kv.Under(c.key, prefixes) {
			continue
		}
		m := keys[c.key]
		c.set(s.e, &m, c.of&^seen[c.key], false)
		keys[c.key] = m
		seen[c.key] |= c.of
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
	_ = s.call(func(*engine) {}) // so that a caller reads what it wrote
	v, err := s.viewAt(from)
	if err != nil {
		return nil, err
	}
	defer s.hist.release()
	out := s.sum(func(yield func(*change) bool) {
		for c := range v.from(0) {
			inside := c.at > from.UnixNano() && (to.IsZero() || c.at <= to.UnixNano())
			if inside && kv.Under(c.key, prefixes) && !yield(c) {
				return
			}
		}
	})
	return s.netted(out), nil
}

// sum puts the changes of each key together.
func (s *Scheduler) sum(changes func(yield func(*change) bool)) []KeyChange {
	keys := map[Key]*KeyChange{}
	seen := map[Key]aspects{}
	for c := range changes {
		k := keys[c.key]
		if k == nil {
			k = &KeyChange{Key: c.key}
			keys[c.key] = k
		}
		c.set(s.e, &k.Before, c.of&^seen[c.key], false)
		c.set(s.e, &k.After, c.of, true)
		seen[c.key] |= c.of
		k.Seq, k.Time = c.cause, timeOf(c.at)
	}
	out := make([]KeyChange, 0, len(keys))
	for _, k := range keys {
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b KeyChange) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// netted takes out what came back to what it was. The kinds compare their
// values in the loop, some at a time.
func (s *Scheduler) netted(changes []KeyChange) (left []KeyChange) {
	for page := range slices.Chunk(changes, pageSize) {
		net := func(e *engine) {
			for _, c := range page {
				if c.net(e.kinds.find(c.Key)) {
					left = append(left, c)
				}
			}
		}
		if s.call(net) != nil {
			net(s.e) // the loop has ended; nobody else uses it
		}
	}
	return left
}

// net drops the aspects that are as before; it reports whether any is left.
func (c *KeyChange) net(k *kind) bool {
	b, a := &c.Before, &c.After
	if !differ(k, c.Key, b.Desired, a.Desired) {
		b.Desired, a.Desired = nil, nil
		if b.Origin == a.Origin {
			b.Origin, a.Origin = "", ""
		}
	}
	if !differ(k, c.Key, b.Actual, a.Actual) {
		b.Actual, a.Actual = nil, nil
	}
	if b.State == a.State || (b.State == Absent || b.State == Removed) && (a.State == Absent || a.State == Removed) {
		b.State, a.State = Absent, Absent
	}
	return b.State != a.State || b.Desired != nil || a.Desired != nil || b.Actual != nil || a.Actual != nil || b.Origin != a.Origin
}

// set puts one side of some aspects of a change into a moment.
func (c *change) set(e *engine, m *Moment, of aspects, after bool) {
	state, source, value := c.was, c.from, c.before
	if after {
		state, source, value = c.now, c.to, c.after
	}
	if of&ofState != 0 {
		m.State = state
	}
	if of&ofWanted != 0 {
		m.Desired, m.Origin = value, e.sourceName(source)
	}
	if of&ofActual != 0 {
		m.Actual = value
	}
}

// viewAt is the log, if it goes back to a time; then it must be released.
func (s *Scheduler) viewAt(t time.Time) (logView, error) {
	if s.hist.off() {
		return logView{}, fmt.Errorf("no history is kept")
	}
	v := s.hist.view()
	if t.UnixNano() < v.since {
		s.hist.release()
		return v, &HistoryError{Earliest: timeOf(v.since)}
	}
	return v, nil
}
