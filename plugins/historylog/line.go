package historylog

import (
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// line is a record, or more of one, as the file has it.
type line struct {
	Seq        uint64          `json:"seq"`
	Time       time.Time       `json:"time,omitzero"`
	Source     string          `json:"source,omitempty"`
	Note       string          `json:"note,omitempty"`
	Written    time.Time       `json:"written,omitzero"`
	Complete   bool            `json:"complete,omitempty"`
	Asked      []scheduler.Key `json:"asked,omitempty"`
	AskedTotal int             `json:"asked_total,omitempty"`
	Planned    []step          `json:"planned,omitempty"`
	Done       []step          `json:"done,omitempty"`
	Changed    []changed       `json:"changed,omitempty"`
	Settled    time.Time       `json:"settled,omitzero"`
	Dropped    int             `json:"dropped,omitempty"`
	Missed     int             `json:"missed,omitempty"`
	// Part: there is more of the record before, and the head of it, from Time to
	// AskedTotal, is here once more, should what is before be gone.
	Part bool `json:"part,omitempty"`

	Deviation *scheduler.Deviation `json:"deviation,omitempty"`
}

type step struct {
	Op     scheduler.Operation `json:"op"`
	Key    scheduler.Key       `json:"key"`
	Via    scheduler.Key       `json:"via,omitempty"`
	Start  time.Time           `json:"start,omitzero"`
	Waited time.Duration       `json:"waited,omitempty"`
	Took   time.Duration       `json:"took,omitempty"`
	Error  string              `json:"error,omitempty"`

	Lapsed bool `json:"lapsed,omitempty"`
}

type changed struct {
	Key    scheduler.Key `json:"key"`
	Time   time.Time     `json:"time"`
	Before moment        `json:"before"`
	After  moment        `json:"after"`
}

type moment struct {
	State   scheduler.State   `json:"state,omitempty"`
	Origin  string            `json:"origin,omitempty"`
	Desired scheduler.Encoded `json:"desired,omitempty"`
	Actual  scheduler.Encoded `json:"actual,omitempty"`
}

func lineOf(r scheduler.Record) line {
	l := line{Seq: r.Seq, Time: r.Time, Source: r.Source, Note: r.Note, Written: r.Written, Complete: r.Complete, Asked: r.Asked, AskedTotal: r.AskedTotal,
		Settled: r.Settled, Dropped: r.Dropped, Missed: r.Missed, Deviation: r.Deviation}
	l.Planned, l.Done, l.Changed = make([]step, len(r.Planned)), make([]step, len(r.Done)), make([]changed, len(r.Changed))
	for i, p := range r.Planned {
		l.Planned[i] = step{Op: p.Op, Key: p.Key}
	}
	for i, d := range r.Done {
		l.Done[i] = step(d)
	}
	for i, c := range r.Changed {
		l.Changed[i] = changed{c.Key, c.Time, momentOf(c.Before), momentOf(c.After)}
	}
	return l
}

// cut adds parts of a line to lines, of which each is at most so many bytes, as far as single
// steps and changes are. They lie in the text that it returns, behind what is there.
func (l line) cut(most int, text []byte, lines [][]byte) ([]byte, [][]byte) {
	start := len(text)
	text = l.appendTo(text)
	switch items := len(l.Asked) + len(l.Planned) + len(l.Done) + len(l.Changed); {
	case len(text)-start <= most || items < 2:
		return text, append(lines, text[start:len(text):len(text)])
	default:
		first, rest := l, line{Seq: l.Seq, Time: l.Time, Source: l.Source, Note: l.Note, Written: l.Written, Complete: l.Complete, AskedTotal: l.AskedTotal, Settled: l.Settled, Part: true}
		left := items / 2
		first.Asked, rest.Asked = take(l.Asked, &left)
		first.Planned, rest.Planned = take(l.Planned, &left)
		first.Done, rest.Done = take(l.Done, &left)
		first.Changed, rest.Changed = take(l.Changed, &left)
		text, lines = first.cut(most, text[:start], lines)
		return rest.cut(most, text, lines)
	}
}

// take splits a list, if so many are left for the first half.
func take[E any](list []E, left *int) (first, rest []E) {
	n := min(len(list), *left)
	*left -= n
	return list[:n], list[n:]
}

func momentOf(m scheduler.Moment) moment {
	out := moment{State: m.State, Origin: m.Origin}
	out.Desired, _ = m.Desired.(scheduler.Encoded)
	out.Actual, _ = m.Actual.(scheduler.Encoded)
	return out
}

func (m moment) moment() scheduler.Moment {
	out := scheduler.Moment{State: m.State, Origin: m.Origin}
	if m.Desired != nil {
		out.Desired = m.Desired
	}
	if m.Actual != nil {
		out.Actual = m.Actual
	}
	return out
}

// addTo puts a line into the record that it tells more of.
func (l line) addTo(r *scheduler.Record) {
	if !l.Time.IsZero() && !r.Time.IsZero() && !l.Time.Equal(r.Time) {
		*r = scheduler.Record{} // of a run whose end was lost: its number was given again
	}
	if !l.Time.IsZero() && (r.Time.IsZero() || l.Part) {
		r.Seq, r.Time, r.Source, r.Note, r.Written, r.Complete, r.AskedTotal = l.Seq, l.Time, l.Source, l.Note, l.Written, l.Complete, l.AskedTotal
		r.Asked = append(r.Asked, l.Asked...)
		for _, p := range l.Planned {
			r.Planned = append(r.Planned, scheduler.PlannedStep{Op: p.Op, Key: p.Key})
		}
	}
	for _, d := range l.Done {
		r.Done = append(r.Done, scheduler.DoneStep(d))
	}
	for _, c := range l.Changed {
		r.Changed = append(r.Changed, scheduler.KeyChange{Key: c.Key, Seq: l.Seq, Time: c.Time,
			Before: c.Before.moment(), After: c.After.moment()})
	}
	if l.Settled.After(r.Settled) {
		r.Settled = l.Settled
	}
	r.Dropped = max(r.Dropped, l.Dropped)
	r.Missed += l.Missed
	if l.Deviation != nil {
		r.Deviation = l.Deviation
	}
}
