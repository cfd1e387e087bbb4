package cni

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Errors of the store.
var (
	// ErrAttached: there is such an attachment already.
	ErrAttached = errors.New("it is attached already")
	// ErrNotAttached: there is none.
	ErrNotAttached = errors.New("it is not attached")
	// ErrNotAdding: it is not being added, so it cannot come to be.
	ErrNotAdding = errors.New("it is not being added")
)

// Store is the attachments of an agent. Every change is in the ledger before it
// counts. Its methods may be called from any goroutine; calls about one attachment
// have to be one after another, see [KeyedQueue].
type Store struct {
	ledger kernel.Ledger

	mu  sync.Mutex
	all map[Key]Attachment
	// pods are the attachments of each pod, the last at the end.
	pods   map[string][]Key
	broken error // why the last change could not be written
	// doubted are those with records that are not believed.
	doubted map[Key]bool
}

const attachments = "attachment/"

// record is an attachment in the ledger. An unknown version is of a later release.
type record struct {
	Version int `json:"version"`
	Attachment
}

const recordVersion = 1

// OpenStore reads a ledger that nobody else writes. What cannot be read is told and
// left where it is: it is somebody's attachment, but nobody knows whose.
func OpenStore(ledger kernel.Ledger) (s *Store, unread []error) {
	s = &Store{ledger: ledger, all: map[Key]Attachment{}, pods: map[string][]Key{}, doubted: map[Key]bool{}}
	for _, e := range ledger.Entries("") {
		var r record
		err := json.Unmarshal(e.Value, &r)
		switch {
		case err == nil && r.Version != recordVersion:
			err = fmt.Errorf("it is of version %d; this release knows %d", r.Version, recordVersion)
		case err == nil && e.ID != attachments+r.Key.String():
			err = errors.New("it is not what its name says")
		}
		if err != nil {
			unread = append(unread, fmt.Errorf("attachment %s: %w", e.ID, err))
			if k, ok := keyOf(e.ID); ok {
				s.doubted[k] = true
			}
			continue
		}
		s.all[r.Key] = r.Attachment
	}
	for _, a := range slices.SortedFunc(maps.Values(s.all), func(a, b Attachment) int { return cmp.Compare(a.Since, b.Since) }) {
		s.index(a, true)
	}
	return s, unread
}

// Begin notes that an attachment is about to be made; on disk when it returns. With
// ErrAttached the one that is there is as it was, also if it is half made: that has
// to be removed first.
func (s *Store) Begin(a Attachment) error {
	if had, ok := s.Get(a.Key); ok {
		return fmt.Errorf("%s: %w, %s since %d", a.Key, ErrAttached, had.Phase, had.Since)
	}
	return s.put(a.begin())
}

// Commit notes that an attachment is made.
func (s *Store) Commit(k Key, r spec.Result) error {
	return s.change(k, func(a *Attachment) error { return a.commit(r) })
}

// Want notes one more key that an attachment wants.
func (s *Store) Want(k Key, key string) error {
	return s.change(k, func(a *Attachment) error {
		a.Wants = slices.Sorted(slices.Values(append(slices.Clone(a.Wants), key)))
		return nil
	})
}

// Remove notes that an attachment is about to be removed. That holds as long as the
// store is open, also if it fails: a disk that is full keeps nobody from leaving.
func (s *Store) Remove(k Key) error {
	err := s.change(k, func(a *Attachment) error { a.remove(); return nil })
	if errors.Is(err, ErrNotAttached) || err == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[k]
	a.remove()
	s.all[k] = a
	return err
}

// Forget notes that nothing of an attachment is left.
func (s *Store) Forget(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index(s.all[k], false)
	delete(s.all, k)
	delete(s.doubted, k)
	s.ledger.Remove(attachments + k.String())
}

// keyOf is the attachment that an entry is about, by its id.
func keyOf(id string) (k Key, ok bool) {
	parts := strings.Split(strings.TrimPrefix(id, attachments), "/")
	if len(parts) != 3 || !strings.HasPrefix(id, attachments) {
		return Key{}, false
	}
	return Key{parts[0], parts[1], parts[2]}, true
}

// Doubt says that the ledger may lack what was written last. So a record that says that
// an attachment is half made, or half removed, is not believed: it may be whole by now.
// Those records stay, and count for nothing.
func (s *Store) Doubt() {
	for _, a := range s.Of("") {
		if a.Phase != Added {
			s.doubt(a)
		}
	}
}

// Seen is what the kernel shows of the link of an attachment.
type Seen int

// A link is unknown if its namespace cannot be read.
const (
	Unknown Seen = iota
	Absent
	Present
)

// Compare compares the records of attachments with what the kernel shows of their links in the
// containers: see is called with the key and the namespace of each. Records of absent links are
// removed, those of links with other addresses are not believed; both are returned.
func (s *Store) Compare(see func(link string, inode uint64) ([]netip.Addr, Seen)) (detached, changed []Key) {
	for _, a := range s.Of("") {
		if a.Phase != Added || a.Pod != "" || a.Result == nil {
			continue
		}
		got, seen := see(models.InterfaceKey(network.SharedName(a.Key.Network)+":"+a.Key.id()), a.Inode)
		switch {
		case seen == Absent:
			s.Forget(a.Key)
			detached = append(detached, a.Key)
		case seen == Present && !slices.Equal(sorted(got), sorted(a.addresses())):
			s.doubt(a)
			changed = append(changed, a.Key)
		}
	}
	return detached, changed
}

func sorted(list []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(list), netip.Addr.Compare)
}

func (s *Store) doubt(a Attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index(a, false)
	delete(s.all, a.Key)
	s.doubted[a.Key] = true
}

// Doubted are the attachments with records that are not believed, sorted.
func (s *Store) Doubted() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.doubted), func(a, b Key) int { return strings.Compare(a.String(), b.String()) })
}

func (s *Store) change(k Key, f func(*Attachment) error) error {
	a, ok := s.Get(k)
	if !ok {
		return fmt.Errorf("%s: %w", k, ErrNotAttached)
	}
	if err := f(&a); err != nil {
		return err
	}
	return s.put(a)
}

func (s *Store) put(a Attachment) error {
	text, err := json.Marshal(record{recordVersion, a})
	if err == nil {
		err = s.ledger.Add(kernel.Entry{ID: attachments + a.Key.String(), Value: text})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken = err; err != nil {
		s.broken = fmt.Errorf("record the attachment %s: %w", a.Key, err)
		return s.broken
	}
	s.all[a.Key] = a
	delete(s.doubted, a.Key)
	s.index(a, true)
	return nil
}

// Broken says why the last change could not be written, nil if it could, or can now.
func (s *Store) Broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.ledger.(interface{ Broken() error }); ok && l.Broken() == nil {
		s.broken = nil
	}
	return s.broken
}

// Get returns one attachment.
func (s *Store) Get(k Key) (Attachment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.all[k]
	return a, ok
}

// Of returns the attachments of a network, or all of them for "", sorted.
func (s *Store) Of(name string) []Attachment {
	return s.matching(func(a Attachment) bool { return name == "" || a.Key.Network == name })
}

// OfPod returns the attachments of a pod that runtimes have made, sorted by their interfaces.
func (s *Store) OfPod(p Pod) []Attachment {
	list := s.matching(func(a Attachment) bool { return a.Phase == Added && podIn(a.Args) == p })
	slices.SortStableFunc(list, func(a, b Attachment) int { return strings.Compare(a.Key.IfName, b.Key.IfName) })
	return list
}

// matching are the attachments for which match is true, sorted.
func (s *Store) matching(match func(Attachment) bool) []Attachment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Attachment
	for _, a := range s.all {
		if match(a) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b Attachment) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return list
}
