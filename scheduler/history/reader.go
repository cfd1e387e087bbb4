package history

import "slices"

// Reader reads a log as it grows. It holds up nobody: what it does not read in time is
// missed. One goroutine uses it.
type Reader struct {
	log     *Log
	wake    chan struct{}
	version uint64         // of the log, when it was read last
	next    uint64         // the number of the entry to read next
	steps   map[uint64]int // of records that may grow: how many steps were read
}

// NewReader makes a reader that begins with the oldest of what is kept. It stays with the log.
func (h *Log) NewReader() *Reader {
	f := &Reader{log: h, wake: make(chan struct{}, 1), steps: map[uint64]int{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers = append(h.readers, f)
	return f
}

// Grown tells that there may be more to read.
func (f *Reader) Grown() <-chan struct{} { return f.wake }

// Read takes what is new.
func (f *Reader) Read() []Record {
	h := f.log
	v := h.view()
	defer h.release()
	out := f.records()
	changed := map[uint64][]*Entry{}
	for c := range v.from(f.next) {
		if c.Cause != 0 { // the first look is no transaction
			changed[c.Cause] = push(changed[c.Cause], c)
		}
	}
	missed := int(max(v.first, f.next) - f.next)
	f.next = v.next
	for i := range out {
		out[i].Changed = h.sum(slices.Values(changed[out[i].Seq]))
		delete(changed, out[i].Seq)
	}
	for seq, cs := range changed {
		out = append(out, Record{Seq: seq, Changed: h.sum(slices.Values(cs))})
	}
	slices.SortFunc(out, func(a, b Record) int { return int(a.Seq) - int(b.Seq) })
	if len(out) > 0 {
		out[0].Missed = missed
	}
	return out
}

// records are copies of those that are new or have grown.
func (f *Reader) records() (out []Record) {
	h := f.log
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

// grown tells that the history has grown. The lock is held.
func (h *Log) grown() {
	for _, f := range h.readers {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}
