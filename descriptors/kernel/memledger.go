package kernel

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Equal reports whether two entries say the same.
func (e Entry) Equal(f Entry) bool {
	return e.ID == f.ID && e.NS == f.NS && e.NSPath == f.NSPath && e.Boot == f.Boot &&
		bytes.Equal(e.Value, f.Value) && bytes.Equal(e.Prior, f.Prior) && e.Mark == f.Mark && e.Index == f.Index &&
		e.Identity.equal(f.Identity)
}

// MemLedger is a ledger in memory, for tests. The zero value is empty.
type MemLedger struct {
	mu      sync.Mutex
	entries map[string]Entry
	writes  int
}

// Add keeps entries.
func (l *MemLedger) Add(entries ...Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[string]Entry{}
	}
	l.writes++
	for _, e := range entries {
		l.entries[e.ID] = e
	}
	return nil
}

// Amend changes entries.
func (l *MemLedger) Amend(change func(Entry) (Entry, bool), ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if e, ok := l.entries[id]; ok {
			if now, changed := change(e); changed {
				l.entries[id] = now
			}
		}
	}
}

// Remove forgets entries.
func (l *MemLedger) Remove(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.entries, id)
	}
}

// Get returns one entry.
func (l *MemLedger) Get(id string) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[id]
	return e, ok
}

// Entries returns the entries whose ID begins with a prefix, sorted by ID.
func (l *MemLedger) Entries(prefix string) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Entry
	for _, id := range slices.Sorted(maps.Keys(l.entries)) {
		if strings.HasPrefix(id, prefix) {
			all = append(all, l.entries[id])
		}
	}
	return all
}

// Each calls f with every entry.
func (l *MemLedger) Each(f func(Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		f(e)
	}
}

// Writes counts calls of Add, each of which would cost a disk its sync.
func (l *MemLedger) Writes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// String lists the entries, one per line.
func (l *MemLedger) String() string {
	var b strings.Builder
	for _, e := range l.Entries("") {
		fmt.Fprintf(&b, "%s %s %s\n", e.ID, e.Mark, e.Value)
	}
	return b.String()
}
