package history

import (
	"slices"
	"sync"
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Log keeps the newest records and the newest changes of keys, bounded by
// count and bytes. The loop writes, anybody reads copies.
type Log struct {
	mu       sync.Mutex
	records  []*Record // oldest first
	sizes    []int
	bytes    int // of the records
	log      changeLog
	maxCount int
	maxBytes int

	version uint64 // counts what is added to records
	readers []*Reader
	sources func(int8) string // names of the sources of entries
}

// New makes a log that keeps at most so many records, and records and changes of at most
// so many bytes together; fewer than no bytes keep nothing. It tells of what happens from
// now on. sources names the sources of entries.
func New(count, bytes int, now time.Time, sources func(int8) string) *Log {
	return &Log{maxCount: count, maxBytes: bytes, log: changeLog{since: now.UnixNano()}, sources: sources}
}

// None is a log that keeps nothing.
func None() *Log { return none }

var none = &Log{maxBytes: -1}

const (
	// MaxAsked is how many keys a record names.
	MaxAsked    = 256
	recordBytes = 200 // a record without keys and steps, roughly
	stepBytes   = 120
)

// Add takes a record in and lets the oldest go.
func (h *Log) Add(r *Record) {
	if h.Off() {
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

// Bytes is how much the records and changes that are kept take, roughly.
func (h *Log) Bytes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes + h.log.bytes
}

// trim lets the oldest go. Records and changes of keys share the bytes; who
// has more than half gives first.
func (h *Log) trim() {
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

// Step adds an operation to the record that caused it, if it is still kept.
// Of a record that is not kept nothing is noted.
func (h *Log) Step(seq uint64, now time.Time, s DoneStep) {
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
	r.Done = push(r.Done, s)
	h.sizes[i] += stepBytes + len(s.Error)
	h.bytes += stepBytes + len(s.Error)
	h.trim()
}

// touched notes that a record is new or has grown. The lock is held.
func (h *Log) touched(r *Record) {
	h.version++
	r.version = h.version
	h.grown()
}

func (h *Log) find(seq uint64) int {
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

// Get returns a copy of a record, nil if it is not kept.
func (h *Log) Get(seq uint64) *Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.find(seq); i >= 0 {
		c := h.records[i].clone()
		return &c
	}
	return nil
}

// Head is a record without keys and steps, an empty one if it is not kept.
func (h *Log) Head(seq uint64) (r Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.find(seq); i >= 0 {
		r = *h.records[i]
		r.Asked, r.Planned, r.Done, r.Changed = nil, nil, nil, nil
	}
	return r
}

// Query returns copies of the records that are asked for, oldest first.
func (h *Log) Query(q Query) []Record {
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

// Insert adds a record that was held back; later ones may be there already.
func (h *Log) Insert(r *Record) {
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
	h.Add(r)
}

// Deviated notes in a record that its plan was left.
func (h *Log) Deviated(seq uint64, d *kv.Deviation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.find(seq); i >= 0 {
		h.records[i].Deviation = d
		h.touched(h.records[i])
		h.sizes[i] += len(d.Why)
		h.bytes += len(d.Why)
	}
}

// NoteBy is [Record.NoteBy] for a record that is kept.
func (h *Log) NoteBy(seq uint64, by string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.find(seq)
	if i < 0 {
		return false
	}
	r := h.records[i]
	before := len(r.Note)
	if !r.NoteBy(by) {
		return false
	}
	h.touched(r)
	h.sizes[i] += len(r.Note) - before
	h.bytes += len(r.Note) - before
	return true
}

// Earlier takes in records of earlier runs; it returns the number of the last.
func (h *Log) Earlier(records []Record) (last uint64) {
	for i := range records {
		r := records[i]
		r.Earlier = true
		h.Add(&r)
		last = max(last, r.Seq)
	}
	return last
}

// Again finds the newest transaction after a record that asked for the key and
// had nothing to do.
func (h *Log) Again(k kv.Key, after *Record) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.records) - 1; i >= 0 && h.records[i].Seq > after.Seq; i-- {
		if slices.Contains(h.records[i].Asked, k) {
			return h.records[i].Seq
		}
	}
	return 0
}

// LastOf finds the newest record in which something was done to the key.
func (h *Log) LastOf(k kv.Key) *Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.records) - 1; i >= 0; i-- {
		for _, d := range h.records[i].Done {
			if d.Key == k {
				c := h.records[i].clone()
				return &c
			}
		}
	}
	return nil
}

// push appends and doubles the room when it is used up: append itself grows long slices
// by a quarter, which makes four times as much garbage.
func push[T any](s []T, v T) []T {
	if len(s) == cap(s) {
		s = slices.Grow(s, max(len(s), 8))
	}
	return append(s, v)
}
