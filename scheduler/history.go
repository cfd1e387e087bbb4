package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// history keeps the newest records and the newest changes of keys, bounded by
// count and bytes. The loop writes, anybody reads copies.
type history struct {
	mu       sync.Mutex
	records  []*Record // oldest first
	sizes    []int
	bytes    int // of the records
	log      changeLog
	maxCount int
	maxBytes int

	version   uint64 // counts what is added to records
	followers []*Follower
}

func newHistory(o Options) history {
	return history{maxCount: o.HistoryCount, maxBytes: o.HistoryBytes, log: changeLog{since: o.Clock.Now().UnixNano()}}
}

const (
	maxAsked    = 256 // keys named by a record
	recordBytes = 200 // a record without keys and steps, roughly
	stepBytes   = 120
)

// add takes a record in and lets the oldest go.
func (h *history) add(r *Record) {
	if h.off() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	size := recordBytes + len(r.Note)
	for _, k := range r.Asked {
		size += 16 + len(k)
	}
	size += 24*len(r.Planned) + stepBytes*len(r.Done)
	for _, c := range r.Changed { // of an earlier run
		size += changeBytes + c.encodedBytes()
	}
	h.touched(r)
	h.records, h.sizes = append(h.records, r), append(h.sizes, size)
	h.bytes += size
	h.trim()
}

// trim lets the oldest go. Records and changes of keys share the bytes; who
// has more than half gives first.
func (h *history) trim() {
	n := 0
	for {
		tooMuch := h.bytes+h.log.bytes > h.maxBytes
		if tooMuch && h.log.bytes > h.maxBytes/2 && h.log.trimOne() {
			continue
		}
		if len(h.records)-n <= 1 || !tooMuch && len(h.records)-n <= h.maxCount {
			break
		}
		h.bytes -= h.sizes[n]
		h.records[n] = nil
		n++
	}
	h.records, h.sizes = h.records[n:], h.sizes[n:]
}

// step adds an operation to the record that caused it, if it is still kept.
// Records that were not yet kept (looks that found nothing so far) are made.
func (h *history) step(seq uint64, now time.Time, s DoneStep) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.find(seq)
	if i < 0 {
		return
	}
	r := h.records[i]
	r.Settled = now
	h.touched(r)
	if h.sizes[i] > h.maxBytes/4 {
		r.Dropped++
		return
	}
	if r.Done == nil { // mostly there is a step for each key
		r.Done = make([]DoneStep, 0, max(1, min(r.AskedTotal, (h.maxBytes/4-h.sizes[i])/stepBytes+1)))
	}
	r.Done = graph.Push(r.Done, s)
	h.sizes[i] += stepBytes + len(s.Error)
	h.bytes += stepBytes + len(s.Error)
	h.trim()
}

// touched notes that a record is new or has grown. The lock is held.
func (h *history) touched(r *Record) {
	h.version++
	r.version = h.version
	h.grown()
}

func (h *history) find(seq uint64) int {
	i, ok := slices.BinarySearchFunc(h.records, seq, func(r *Record, seq uint64) int {
		switch {
		case r.Seq < seq:
			return -1
		case r.Seq > seq:
			return 1
		}
		return 0
	})
	if !ok {
		return -1
	}
	return i
}

func (h *history) get(seq uint64) *Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.find(seq); i >= 0 {
		c := h.records[i].clone()
		return &c
	}
	return nil
}

func (r *Record) clone() Record {
	c := *r
	c.Asked, c.Planned, c.Done = slices.Clone(r.Asked), slices.Clone(r.Planned), slices.Clone(r.Done)
	return c
}

func (r *Record) touches(k Key) bool {
	return slices.Contains(r.Asked, k) || slices.ContainsFunc(r.Done, func(s DoneStep) bool { return s.Key == k })
}

// HistoryQuery selects records; the zero value selects all.
type HistoryQuery struct {
	Seq   uint64
	Key   Key
	Since time.Time
	Limit int // the newest that many
}

// History returns copies of the records kept, oldest first. It does not ask
// the loop, so it works at any time, also after the end.
//
// A record that is asked for by its number tells also what it changed; that
// asks the loop to compare values, while there is one.
func (s *Scheduler) History(q HistoryQuery) []Record {
	out := s.hist.query(q)
	if q.Seq != 0 && len(out) == 1 {
		s.changedBy(&out[0])
	}
	return out
}

func (h *history) query(q HistoryQuery) []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Record
	for _, r := range h.records {
		if q.Seq != 0 && r.Seq != q.Seq || r.Time.Before(q.Since) || q.Key != "" && !r.touches(q.Key) {
			continue
		}
		out = append(out, r.clone())
	}
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[len(out)-q.Limit:]
	}
	return out
}

// String tells the record as text, the way logs, the command line and tests show it.
func (r Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "txn %d %s", r.Seq, r.Source)
	if r.Note != "" {
		fmt.Fprintf(&b, " %q", r.Note)
	}
	b.WriteByte('\n')
	for _, d := range r.Done {
		b.WriteString("  " + d.String() + "\n")
	}
	if r.Deviation != nil {
		fmt.Fprintf(&b, "  the plan was %s\n", r.Deviation)
	}
	if r.Dropped > 0 {
		fmt.Fprintf(&b, "  and %d steps more\n", r.Dropped)
	}
	return b.String()
}

// String tells the step without times.
func (d DoneStep) String() string {
	s := fmt.Sprintf("%s %s", d.Op.Sign(), d.Key)
	if d.Error != "" {
		s += " failed: " + d.Error
	}
	return s
}

// note opens the record of a transaction. Looks are kept only once something
// comes of them.
func (e *engine) note(t Txn, asked []*graph.Node) *Record {
	r := &Record{Seq: e.seq, Time: e.now, Source: t.Source, Note: t.Note, AskedTotal: len(asked), Settled: e.now}
	r.Asked = make([]Key, min(len(asked), maxAsked))
	for i := range r.Asked {
		r.Asked[i] = asked[i].Key
	}
	return r
}

// because runs f as something that has a number and a record of its own, though
// no transaction asked for it. The record is kept once something comes of it.
// What is done before the first transaction has the number of no transaction.
func (e *engine) because(source, note string, f func()) {
	if e.seq > e.began {
		e.seq++
		e.g.Cause, e.g.Via = e.seq, nil
		defer func() { e.g.Cause = 0 }()
		e.keepLater(e.note(Txn{Source: source, Note: note}, nil))
	}
	f()
}

// plan notes the operations that were due at once.
func (r *Record) plan(ready []*op) {
	for _, o := range ready {
		if o.cause == r.Seq && o.what != OpLook && len(r.Planned) < maxAsked {
			r.Planned = append(r.Planned, PlannedStep{Op: o.what, Key: o.key})
		}
	}
}

// record adds an outcome to the history.
func (e *engine) record(o *op) {
	s := DoneStep{Op: o.what, Key: o.key, Start: o.start, Took: o.took}
	if o.via != nil {
		s.Via = o.via.Key
	}
	if o.err != nil {
		s.Error = kv.FirstLine(o.err) // a panic brings its stack, which the log has
		// What goes because a need is gone has lost that before.
		s.Lapsed = kv.IsLapsed(o.err) || o.what != OpDelete && o.n.X != nil && o.n.X.Lapsed
	}
	e.keepRecord(o.cause)
	e.hist.step(o.cause, e.now, s)
}

// insert adds a record that was held back; later ones may be there already.
func (h *history) insert(r *Record) {
	h.mu.Lock()
	i, _ := slices.BinarySearchFunc(h.records, r.Seq, func(r *Record, seq uint64) int {
		if r.Seq < seq {
			return -1
		}
		return 1
	})
	if i < len(h.records) {
		h.touched(r)
		h.records = slices.Insert(h.records, i, r)
		h.sizes = slices.Insert(h.sizes, i, recordBytes)
		h.bytes += recordBytes
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	h.add(r)
}
