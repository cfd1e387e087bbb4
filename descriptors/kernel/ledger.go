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
	// Amend replaces the entries of the IDs that change reports to have changed. It may reach
	// the disk later: an entry without it does no harm. It outlives this process, but maybe not
	// this boot. change must not call the ledger.
	Amend(change func(Entry) (Entry, bool), ids ...string)
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
	// Identity is how the object was when it was last seen; nil: that is not known.
	Identity *Identity `json:"identity,omitempty"`
}

// Identity is what an object is recognized by when others have changed its mark.
type Identity struct {
	// Name, Type and MAC are those of a link that Plumb made.
	Name string `json:"name,omitempty"`
	Type string `json:"type,omitempty"`
	MAC  string `json:"mac,omitempty"`
	// Cookie is that of a namespace; see [Namespaces].
	Cookie uint64 `json:"cookie,omitempty"`
}

// equal reports whether two entries say the same about the identity.
func (i *Identity) equal(j *Identity) bool {
	if i == nil || j == nil {
		return i == j
	}
	return *i == *j
}
