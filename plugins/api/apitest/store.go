package apitest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/plumb-net/plumb/models"
)

// Store is a store in memory.
type Store struct {
	hear func(changes []models.Write)

	mu       sync.Mutex // guards what follows
	keys     map[string]models.Stored
	revision int64
	moved    *sync.Cond // something was written
	down     bool
	// elsewhere are the other labels that have a key.
	elsewhere map[string][]string
	limit     int    // of writes in a transaction, if not 0
	before    func() // runs once, before the next write
}

// NewStore makes an empty store. What one transaction writes below config/ comes
// to hear, by its short keys; a nil value is a deletion.
func NewStore(hear func(changes []models.Write)) *Store {
	s := &Store{hear: hear, keys: map[string]models.Stored{}, elsewhere: map[string][]string{}, revision: 10}
	s.moved = sync.NewCond(&s.mu)
	return s
}

// Down makes the store unreachable, or reachable again.
func (s *Store) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Cross runs f once, just before the next write: somebody else is faster.
func (s *Store) Cross(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// Limit bounds the writes of a transaction.
func (s *Store) Limit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
}

// Await blocks until a key has a value.
func (s *Store) Await(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for string(s.keys[key].Value) != value {
		s.moved.Wait()
	}
}

// Get implements the port.
func (s *Store) Get(_ context.Context, key string) (kv models.Stored, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return kv, false, fmt.Errorf("get %s: %w", key, models.ErrStoreDown)
	}
	kv, ok = s.keys[key]
	return kv, ok, nil
}

// List implements the port.
func (s *Store) List(_ context.Context, prefix string) ([]models.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, fmt.Errorf("list %s: %w", prefix, models.ErrStoreDown)
	}
	var out []models.Stored
	for _, k := range slices.Sorted(maps.Keys(s.keys)) {
		if strings.HasPrefix(k, prefix) {
			out = append(out, s.keys[k])
		}
	}
	return out, nil
}

// Author implements the port.
func (s *Store) Author(_ context.Context, revision int64) (a models.Author, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return a, false, fmt.Errorf("author: %w", models.ErrStoreDown)
	}
	for key, st := range s.keys {
		if st.Revision == revision && strings.HasPrefix(key, models.AuthorPrefix) {
			a, ok = models.ReadAuthor(st.Value)
			return a, ok, nil
		}
	}
	return a, false, nil
}

// Elsewhere implements the port: what Other wrote.
func (s *Store) Elsewhere(_ context.Context, key string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elsewhere[key], nil
}

// Other has another label write a key, which is in the same store.
func (s *Store) Other(label, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elsewhere[key] = append(s.elsewhere[key], label)
}

// Write implements the port.
func (s *Store) Write(_ context.Context, writes []models.Write) (int64, error) {
	s.mu.Lock()
	crossing := s.before
	s.before = nil
	s.mu.Unlock()
	if crossing != nil {
		crossing()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return 0, fmt.Errorf("write: %w", models.ErrStoreDown)
	}
	if s.limit > 0 && len(writes) > s.limit {
		return 0, fmt.Errorf("write: %d are too many; %w", len(writes), models.ErrStoreTooMuch)
	}
	for _, w := range writes {
		if w.If != nil && s.keys[w.Key].Revision != *w.If {
			return 0, fmt.Errorf("write %s: %w", w.Key, models.ErrStoreConflict)
		}
	}
	s.revision++
	defer s.moved.Broadcast()
	var heard []models.Write
	for _, w := range writes {
		if w.Value == nil {
			delete(s.keys, w.Key)
		} else {
			s.keys[w.Key] = models.Stored{Key: w.Key, Value: slices.Clone(w.Value), Revision: s.revision}
		}
		if key, ok := strings.CutPrefix(w.Key, "config/"); ok {
			heard = append(heard, models.Write{Key: key, Value: w.Value})
		}
	}
	if len(heard) > 0 {
		s.hear(heard)
	}
	return s.revision, nil
}

// Revision implements the port.
func (s *Store) Revision(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return 0, fmt.Errorf("revision: %w", models.ErrStoreDown)
	}
	return s.revision, nil
}

// Reached implements the port: what is written was heard at once.
func (s *Store) Reached(ctx context.Context, _ int64) error { return ctx.Err() }

// Converged implements the port: what is written is done at once.
func (s *Store) Converged() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Verify implements the port: nothing is ever lost.
func (s *Store) Verify(context.Context) (models.StoreCheck, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return models.StoreCheck{}, fmt.Errorf("verify: %w", models.ErrStoreDown)
	}
	return models.StoreCheck{Revision: s.revision, Keys: len(s.keys)}, nil
}

// String lists the store for golden files, without who wrote it: processes have numbers.
func (s *Store) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s.keys)) {
		if strings.HasPrefix(k, models.AuthorPrefix) {
			continue
		}
		fmt.Fprintf(&b, "%s = %s\n", k, s.keys[k].Value)
	}
	return b.String()
}
