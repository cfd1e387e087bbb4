package history

import (
	"fmt"
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Deed is one thing that was done to a key, and on whose account.
type Deed struct {
	// Seq is the transaction; Source and Note are its own, empty if its record
	// is no longer kept.
	Seq    uint64
	Source string
	Note   string
	Time   time.Time
	// Op is what an operation did, OpLook if a look found it so. Asking has none.
	Op kv.Operation
	// Via is the key through which it came about; empty when it was asked.
	Via   kv.Key
	Error string
}

// Blame tells who is behind a key.
type Blame struct {
	Key kv.Key
	// Asked is who asked for the value that is wanted now or, if none is, who
	// took the last one back; nil if that was before what is kept.
	Asked *Deed
	// Made is what made the thing that is there or, if none is, what took it
	// away; nil if that was before what is kept.
	Made *Deed
	// Failures are the last operations on the key that failed, the newest first.
	Failures []Deed
	// Since is how far back the history reaches.
	Since time.Time
}

const maxFailures = 5

// Blame tells who is behind a key, as far as is kept.
func (h *Log) Blame(k kv.Key) Blame {
	b := Blame{Key: k}
	v := h.view()
	defer h.release()
	b.Since = timeOf(v.since)
	for c := range v.newest {
		if c.Key == k && c.Of&OfWanted != 0 && b.Asked == nil {
			b.Asked = h.deed(c)
			b.Asked.Op = 0
		}
		if c.Key == k && c.Of&OfActual != 0 && b.Made == nil {
			b.Made = h.deed(c)
		}
		if b.Asked != nil && b.Made != nil {
			break
		}
	}
	b.Failures = h.failures(k)
	return b
}

// Unknown reports whether nothing is kept of the key.
func (b Blame) Unknown() bool { return b.Asked == nil && b.Made == nil && len(b.Failures) == 0 }

// deed tells a change as a deed.
func (h *Log) deed(c *Entry) *Deed {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := Deed{Seq: c.Cause, Time: timeOf(c.At), Op: c.Op, Via: c.Via}
	h.sign(&d)
	return &d
}

// sign puts in whose deed it is. The lock is held.
func (h *Log) sign(d *Deed) {
	if i := h.find(d.Seq); i >= 0 {
		d.Source, d.Note = h.records[i].Source, h.records[i].Note
	} else if d.Seq == 0 {
		d.Note = "the first read of the actual state"
	}
}

func (h *Log) failures(k kv.Key) []Deed {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Deed
	for i := len(h.records) - 1; i >= 0 && len(out) < maxFailures; i-- {
		r := h.records[i]
		for j := len(r.Done) - 1; j >= 0 && len(out) < maxFailures; j-- {
			if s := r.Done[j]; s.Key == k && s.Error != "" && !s.Lapsed {
				out = append(out, Deed{Seq: r.Seq, Source: r.Source, Note: r.Note, Time: s.Start.Add(s.Took), Op: s.Op, Via: s.Via, Error: s.Error})
			}
		}
	}
	return out
}

// String tells the blame as text, the way logs and tests show it, without times.
func (b Blame) String() string {
	out := "asked: " + b.Asked.String() + "\nmade: " + b.Made.String() + "\n"
	for _, f := range b.Failures {
		out += "failed: " + f.String() + "\n"
	}
	return out
}

// String tells the deed without its time; that of none is a dash.
func (d *Deed) String() string {
	if d == nil {
		return "-"
	}
	s := fmt.Sprintf("txn %d %s", d.Seq, d.Source)
	if d.Note != "" {
		s += fmt.Sprintf(" %q", d.Note)
	}
	if d.Op != 0 {
		s = d.Op.Sign() + " " + s
	}
	if d.Via != "" {
		s += " via " + string(d.Via)
	}
	if d.Error != "" {
		s += ": " + d.Error
	}
	return s
}

const maxChain = 32

// Chain follows the operation that a record did last on a key up to what the
// transaction itself touched: each step was made due by the key of the next. A
// key that only stood between has a step without an operation.
func (h *Log) Chain(k kv.Key, r *Record) []DoneStep {
	v := h.view()
	defer h.release()
	var out []DoneStep
	told := map[kv.Key]bool{}
	for k != "" && !told[k] && len(out) < maxChain {
		told[k] = true
		s, ok := r.lastStep(k)
		if !ok {
			s, ok = v.lastStep(k, r.Seq)
		}
		if !ok || len(out) == 0 && s.Op == 0 {
			break // nothing was done to it
		}
		out = append(out, s)
		k = s.Via
	}
	return out
}

func (r *Record) lastStep(k kv.Key) (DoneStep, bool) {
	for i := len(r.Done) - 1; i >= 0; i-- {
		if r.Done[i].Key == k {
			return r.Done[i], true
		}
	}
	return DoneStep{}, false
}

// lastStep finds what the transaction changed of a key where no step of its
// record tells it: what was found by a look, or did not fit.
func (v *logView) lastStep(k kv.Key, seq uint64) (DoneStep, bool) {
	for c := range v.newest {
		if c.Key == k && c.Cause == seq {
			return DoneStep{Op: c.Op, Key: k, Via: c.Via, Start: timeOf(c.At)}, true
		}
	}
	return DoneStep{}, false
}
