package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/plumb-net/plumb/plugins/private"
)

// identity is how a store is told from another. The id is random and kept in
// the store; a wiped store lacks it. Revision and cluster catch a snapshot
// restored over the store: it has the id, but an older revision or, made into
// a new cluster, another cluster id.
type identity struct {
	ID string `json:"id"`
	// Revision is the last that was seen, or a little less after a crash.
	Revision int64  `json:"revision"`
	Cluster  uint64 `json:"cluster,omitempty"`
}

// trust is what an identity lets us conclude from a list.
type trust int

const (
	// fresh: neither side knows the other; the store gets an id.
	fresh trust = iota
	// same: what the list lacks was deleted.
	same
	// restored: the store was taken back in time; what the list lacks is unknown.
	restored
	// foreign: what the list lacks is unknown.
	foreign
)

// trusted stores are believed when they lack a key.
func (t trust) trusted() bool { return t == fresh || t == same }

// judge compares the store that we know with the one that answers, and says
// to people why it is not trusted.
func judge(known, found identity) (trust, string) {
	switch {
	case known.ID == "" && found.ID == "":
		return fresh, ""
	case known.ID == "":
		// Our state directory was lost, the store was not: it is the
		// operator's word, and there is nothing to set against it.
		return same, ""
	case known.ID == unreadable:
		return foreign, "the record of the known store in the state directory is damaged"
	case found.ID == "":
		return foreign, fmt.Sprintf("another store or an emptied one: it has no id, the known store is %s", known.ID)
	case found.ID != known.ID:
		return foreign, fmt.Sprintf("another store: its id is %s, the known store is %s", found.ID, known.ID)
	case known.Cluster != 0 && found.Cluster != known.Cluster:
		return restored, fmt.Sprintf("a copy of the known store: its cluster is %x, it was %x", found.Cluster, known.Cluster)
	case found.Revision < known.Revision:
		return restored, fmt.Sprintf("an older state of the known store: it is at revision %d and was at %d", found.Revision, known.Revision)
	}
	return same, ""
}

// unreadable stands for the id in a record that cannot be read. It equals no id.
const unreadable = "?"

// memory keeps the identity of the known store, also on disk. The disk is
// written at once when the id changes and otherwise now and then: a revision
// that is a little old only makes the check for old snapshots a little blunt.
type memory struct {
	path string

	mu    sync.Mutex // guards what follows
	known identity
	saved identity
}

// openMemory reads the record; one that cannot be read is not an absent one.
func openMemory(dir string) *memory {
	m := &memory{path: filepath.Join(dir, "store.json")}
	data, err := private.ReadState(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m
	}
	if err != nil || json.Unmarshal(data, &m.known) != nil || m.known.ID == "" {
		m.known = identity{ID: unreadable}
	}
	m.saved = m.known
	return m
}

func (m *memory) get() identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known
}

// set believes in a store, on disk before in memory.
func (m *memory) set(id identity) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = id
	return m.saveLocked()
}

// saw notes that the known store reached a revision.
func (m *memory) saw(rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.Revision = max(m.known.Revision, rev)
}

// save writes the record if it changed.
func (m *memory) save() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saveLocked()
}

func (m *memory) saveLocked() error {
	if m.known == m.saved || m.known.ID == "" || m.known.ID == unreadable {
		return nil
	}
	data, err := json.Marshal(m.known)
	if err != nil {
		return err
	}
	if err := private.WriteFile(m.path, append(data, '\n')); err != nil {
		return fmt.Errorf("record of the store: %w", err)
	}
	m.saved = m.known
	return nil
}
