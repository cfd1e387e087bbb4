package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// ErrClosed: the ledger was closed.
var ErrClosed = errors.New("the ledger is closed")

// Ledger is a kernel.Ledger in a file. See the package documentation.
type Ledger struct {
	disk disk

	mu sync.Mutex
	// entries is the truth as callers see it. Entries are never changed in
	// place: a pointer stands for one Add.
	entries map[string]*kernel.Entry
	// pending are lines that no write has taken yet, in order.
	pending []byte
	// lines counts those of the file and the pending ones, void ones too.
	lines int
	// gathering is the batch that Adds join; writing is the last one that was
	// taken: it is being written, or has been.
	gathering, writing *batch
	// suspect: a write failed, the file may end in a torn line. Nothing is
	// appended to it any more; it is written anew.
	suspect bool
	// broken is why the last write failed, nil if it did not.
	broken error
	closed bool
}

var _ kernel.Ledger = (*Ledger)(nil)

// batch is what one sync makes durable.
type batch struct {
	// after is the batch before, which must be through first.
	after *batch
	// adds are undone when the batch fails.
	adds []added
	// done is closed when err tells how it went.
	done chan struct{}
	err  error
}

// added is one entry that a batch put, and what stood there before.
type added struct {
	id       string
	now, was *kernel.Entry
}

func newLedger(d disk) *Ledger {
	return &Ledger{disk: d, entries: map[string]*kernel.Entry{}}
}

// lineSize is about what the line of an entry takes.
const lineSize = 256

// Add writes entries and returns when they are on disk. When it fails, the
// ledger is as it was before.
func (l *Ledger) Add(entries ...kernel.Entry) error {
	text := make([]byte, 0, lineSize*len(entries))
	puts := make([]*kernel.Entry, len(entries))
	for i, e := range entries {
		put, err := own(e)
		if err != nil {
			return fmt.Errorf("ledger entry %q: %w", e.ID, err)
		}
		text = appendLine(text, change{Add: put})
		puts[i] = put
	}
	if len(puts) == 0 {
		return nil
	}
	b, leads, err := l.join(puts, text)
	if err != nil {
		return err
	}
	if leads {
		l.write(b)
	}
	<-b.done
	return b.err
}

// own checks an entry and takes a copy, with raw values as they will be read back.
func own(e kernel.Entry) (*kernel.Entry, error) {
	if e.ID == "" {
		return nil, errors.New("it has no id")
	}
	for _, raw := range []*json.RawMessage{&e.Value, &e.Prior} {
		if len(*raw) == 0 {
			*raw = nil
			continue
		}
		copied := bytes.NewBuffer(make([]byte, 0, len(*raw)))
		if err := json.Compact(copied, *raw); err != nil {
			return nil, err
		}
		*raw = copied.Bytes()
	}
	return &e, nil
}

// join puts entries and their lines into the batch that gathers. Who opens it
// leads it.
func (l *Ledger) join(puts []*kernel.Entry, text []byte) (b *batch, leads bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, false, ErrClosed
	}
	b, leads = l.batch()
	b.adds = slices.Grow(b.adds, len(puts))
	for _, put := range puts {
		b.adds = append(b.adds, added{put.ID, put, l.entries[put.ID]})
		l.entries[put.ID] = put
	}
	if len(l.pending) == 0 {
		l.pending = text
	} else {
		l.pending = append(l.pending, text...)
	}
	l.lines += len(puts)
	return b, leads, nil
}

// batch is the batch that gathers. The lock is held.
func (l *Ledger) batch() (b *batch, leads bool) {
	if l.gathering == nil {
		l.gathering = &batch{after: l.writing, done: make(chan struct{})}
		leads = true
	}
	return l.gathering, leads
}

// write waits for the batch before, during which others join, and makes the
// batch durable.
func (l *Ledger) write(b *batch) {
	if b.after != nil {
		<-b.after.done
		b.after = nil
	}
	l.mu.Lock()
	l.gathering, l.writing = nil, b
	text, anew := l.pending, l.suspect || l.wasteful()
	l.pending = nil
	l.mu.Unlock()

	anew = anew || !l.disk.stands() // what is written to a file that was removed is lost
	err := error(nil)
	if !anew && len(text) > 0 {
		if err = l.disk.write(text); err == nil {
			err = l.disk.sync()
		}
	}
	if anew || err != nil {
		err = l.rewrite()
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken = err; err != nil {
		b.err = fmt.Errorf("write the ledger: %w", err)
		l.undo(b)
	}
	b.adds = nil
	if l.gathering == nil {
		l.writePending()
	}
	close(b.done)
}

// undo takes back the entries of a batch that failed, the last first.
func (l *Ledger) undo(b *batch) {
	for _, a := range slices.Backward(b.adds) {
		if l.entries[a.id] != a.now {
			continue // somebody changed it since, and has the last word
		}
		if a.was == nil {
			delete(l.entries, a.id)
			continue
		}
		l.entries[a.id] = a.was
	}
}

// slack is how many void lines are always allowed.
const slack = 1000

// wasteful reports whether more lines are void than hold.
func (l *Ledger) wasteful() bool {
	return l.lines-len(l.entries) > max(len(l.entries), slack)
}

// rewrite writes the whole ledger anew. Lines that are pending meanwhile are
// appended later and say nothing new.
func (l *Ledger) rewrite() error {
	l.mu.Lock()
	entries := l.sorted("")
	l.suspect = true
	l.lines = 1 + len(entries) + bytes.Count(l.pending, []byte("\n"))
	l.mu.Unlock()

	err := l.disk.replace(fileText(entries))

	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspect = err != nil
	return err
}

// Broken is why the last write failed, nil if it did not. Nothing can be added
// while the disk is full; what is removed is written once it no longer is.
func (l *Ledger) Broken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// Mend tries a write that failed again, with all that was removed meanwhile. It does
// nothing if none did.
func (l *Ledger) Mend() error {
	l.mu.Lock()
	if l.closed || !l.suspect {
		l.mu.Unlock()
		return nil
	}
	b, leads := l.batch()
	l.mu.Unlock()
	if leads {
		l.write(b)
	}
	<-b.done
	return b.err
}

// Amend changes entries. The lines are written but not waited for: after a power failure the
// entries may be as they were before.
func (l *Ledger) Amend(alter func(kernel.Entry) (kernel.Entry, bool), ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for _, id := range ids {
		e, ok := l.entries[id]
		if !ok {
			continue
		}
		now, changed := alter(*e)
		if !changed {
			continue
		}
		if put, err := own(now); err == nil {
			l.entries[id] = put
			l.pending = appendLine(l.pending, change{Add: put})
			l.lines++
		}
	}
	if l.idle() {
		l.writePending()
	}
}

// Ensure writes all entries anew if somebody has removed or replaced the file. It writes nothing
// otherwise.
func (l *Ledger) Ensure() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	b, leads := l.batch()
	l.mu.Unlock()
	if leads {
		l.write(b)
	}
	<-b.done
	return b.err
}

// Remove forgets entries. The lines are written but not waited for: after a
// power failure there may be entries too many.
func (l *Ledger) Remove(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for _, id := range ids {
		if _, ok := l.entries[id]; !ok {
			continue
		}
		delete(l.entries, id)
		l.pending = appendLine(l.pending, change{Remove: id})
		l.lines++
	}
	if l.idle() {
		l.writePending()
	}
}

// idle reports whether no batch is being written or gathered.
func (l *Ledger) idle() bool {
	if l.gathering != nil {
		return false
	}
	if l.writing == nil {
		return true
	}
	select {
	case <-l.writing.done:
		return true
	default:
		return false
	}
}

// writePending appends what waits, without waiting for the disk. A failure is
// made good by the next Add.
func (l *Ledger) writePending() {
	if len(l.pending) > 0 && !l.suspect {
		if err := l.disk.write(l.pending); err != nil {
			l.suspect, l.broken = true, err
		}
	}
	l.pending = nil
}

// Get returns one entry. Its raw values must not be changed.
func (l *Ledger) Get(id string) (kernel.Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[id]; ok {
		return *e, true
	}
	return kernel.Entry{}, false
}

// Entries returns those whose ID begins with a prefix, sorted by ID. Their raw values must
// not be changed.
func (l *Ledger) Entries(prefix string) []kernel.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sorted(prefix)
}

// Each calls f with every entry, in any order. f must not call the ledger.
func (l *Ledger) Each(f func(kernel.Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		f(*e)
	}
}

func (l *Ledger) sorted(prefix string) []kernel.Entry {
	var of []*kernel.Entry
	for id, e := range l.entries {
		if strings.HasPrefix(id, prefix) {
			of = append(of, e)
		}
	}
	slices.SortFunc(of, func(a, b *kernel.Entry) int { return strings.Compare(a.ID, b.ID) })
	entries := make([]kernel.Entry, len(of))
	for i, e := range of {
		entries[i] = *e
	}
	return entries
}

// Close makes everything durable, removals too. After it, Add fails with
// ErrClosed and Remove does nothing.
func (l *Ledger) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	last := l.gathering
	if last == nil {
		last = l.writing
	}
	l.closed = true
	l.mu.Unlock()
	if last != nil {
		<-last.done
	}
	var err error
	if l.suspect {
		err = l.rewrite()
	} else {
		err = l.disk.sync()
	}
	return errors.Join(err, l.disk.close())
}
