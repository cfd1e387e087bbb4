package history

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Since is nil if the log goes back to a time, else an [*Error]; without any history there
// is another.
func (h *Log) Since(t time.Time) error {
	if h.Off() {
		return errors.New("no history is kept")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.reaches(t)
}

func (l *changeLog) reaches(t time.Time) error {
	if t.UnixNano() < l.since {
		return &Error{Earliest: timeOf(l.since)}
	}
	return nil
}

// GoBack turns how keys stand now, which was asked before, into how those under the
// prefixes stood at a time.
func (h *Log) GoBack(t time.Time, keys map[kv.Key]Moment, prefixes []kv.Key) error {
	v := h.view()
	defer h.release()
	if t.UnixNano() < v.since {
		return &Error{Earliest: timeOf(v.since)}
	}
	seen := map[kv.Key]Aspects{}
	for c := range v.from(0) {
		if c.At <= t.UnixNano() || c.Of&^seen[c.Key] == 0 || !kv.Under(c.Key, prefixes) {
			continue
		}
		m := keys[c.Key]
		c.set(h, &m, c.Of&^seen[c.Key], false)
		keys[c.Key] = m
		seen[c.Key] |= c.Of
	}
	return nil
}

// Between sums up what changed under the prefixes after one time and until another, sorted
// by key; the zero time as to means now.
func (h *Log) Between(from, to time.Time, prefixes []kv.Key) ([]KeyChange, error) {
	v := h.view()
	defer h.release()
	if from.UnixNano() < v.since {
		return nil, &Error{Earliest: timeOf(v.since)}
	}
	return h.sum(func(yield func(*Entry) bool) {
		for c := range v.from(0) {
			inside := c.At > from.UnixNano() && (to.IsZero() || c.At <= to.UnixNano())
			if inside && kv.Under(c.Key, prefixes) && !yield(c) {
				return
			}
		}
	}), nil
}

// ChangedBy sums up what a transaction changed, sorted by key.
func (h *Log) ChangedBy(seq uint64) []KeyChange {
	v := h.view()
	defer h.release()
	return h.sum(func(yield func(*Entry) bool) {
		for c := range v.from(0) {
			if c.Cause == seq && !yield(c) {
				return
			}
		}
	})
}

// sum puts the changes of each key together. It goes through them twice: the result of a mass
// is large, and so its room is made at once.
func (h *Log) sum(changes iter.Seq[*Entry]) []KeyChange {
	place := map[kv.Key]int{}
	for c := range changes {
		if _, known := place[c.Key]; !known {
			place[c.Key] = len(place)
		}
	}
	out := make([]KeyChange, len(place))
	seen := make([]Aspects, len(place)) // of each
	for c := range changes {
		i := place[c.Key]
		k := &out[i]
		k.Key = c.Key
		c.set(h, &k.Before, c.Of&^seen[i], false)
		c.set(h, &k.After, c.Of, true)
		seen[i] |= c.Of
		k.Seq, k.Time = c.Cause, timeOf(c.At)
	}
	slices.SortFunc(out, func(a, b KeyChange) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// Net drops the aspects that are as before; it reports whether any is left.
func (c *KeyChange) Net(wishesDiffer, differ func(k kv.Key, a, b any) bool) bool {
	b, a := &c.Before, &c.After
	if !wishesDiffer(c.Key, b.Desired, a.Desired) {
		b.Desired, a.Desired = nil, nil
		if b.Origin == a.Origin {
			b.Origin, a.Origin = "", ""
		}
	}
	if !differ(c.Key, b.Actual, a.Actual) {
		b.Actual, a.Actual = nil, nil
	}
	if b.State == a.State || (b.State == kv.Absent || b.State == kv.Removed) && (a.State == kv.Absent || a.State == kv.Removed) {
		b.State, a.State = kv.Absent, kv.Absent
	}
	return b.State != a.State || b.Desired != nil || a.Desired != nil || b.Actual != nil || a.Actual != nil || b.Origin != a.Origin
}

// set puts one side of some Aspects of a change into a moment.
func (c *Entry) set(h *Log, m *Moment, of Aspects, after bool) {
	state, source, value := c.Was, c.From, c.Before
	if after {
		state, source, value = c.Now, c.To, c.After
	}
	if of&OfState != 0 {
		m.State = state
	}
	if of&OfWanted != 0 {
		m.Desired, m.Origin = value, h.sources(source)
	}
	if of&OfActual != 0 {
		m.Actual = value
	}
}
