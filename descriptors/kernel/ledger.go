package kernel

import "encoding/json"

// Ledger is the durable list of what we made. An entry is written before its
// object is created and removed after it is deleted, so that after a crash it
// names more than there is, never less.
type Ledger interface {
	// Add writes entries; they are on disk when it returns. Equal IDs are replaced.
	Add(entries ...Entry) error
	// Remove forgets entries. It may reach the disk later: an entry too many does no harm.
	Remove(ids ...string)
	// Get returns one entry, Entries those whose ID begins with a prefix, sorted by ID.
	Get(id string) (Entry, bool)
	Entries(prefix string) []Entry
	// Each calls f with every entry, in any order. f must not call the ledger.
	Each(f func(Entry))
}

// Entry is one object of ours.
type Entry struct {
	// ID is the key of the object: "interface/web".
	ID string `json:"id"`
	// NS is the namespace it was made in; NSPath is how to find that
	// namespace again (a path), Boot the boot id in which NS is valid.
	NS     NS     `json:"ns,omitempty"`
	NSPath string `json:"ns_path,omitempty"`
	Boot   string `json:"boot,omitempty"`
	// Value is what was made, as the kind encodes it.
	Value json.RawMessage `json:"value,omitempty"`
	// Prior is what the object was before we changed it, to be restored.
	Prior json.RawMessage `json:"prior,omitempty"`
	// Mark is the kernel's evidence (alias, protocol number) that it is ours.
	Mark string `json:"mark,omitempty"`
	// Index is the link's index once it is known.
	Index int `json:"index,omitempty"`
}
