package owned

import (
	"maps"
	"slices"
	"sync"
)

// Memory is what is believed to be in the kernel, in groups that go together, such as
// all of a namespace. It is noted before something is made and forgotten before it is
// removed, so that the event of it is no news. The zero value is empty.
type Memory[G, K comparable, T any] struct {
	mu     sync.Mutex
	groups map[G]map[K]T
}

// Note keeps what is there, or is about to be, and returns what was before.
func (m *Memory[G, K, T]) Note(g G, k K, t T) (before T, had bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups == nil {
		m.groups = map[G]map[K]T{}
	}
	if m.groups[g] == nil {
		m.groups[g] = map[K]T{}
	}
	before, had = m.groups[g][k]
	m.groups[g][k] = t
	return before, had
}

// Forget says that it is not there, or will not be.
func (m *Memory[G, K, T]) Forget(g G, k K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if delete(m.groups[g], k); len(m.groups[g]) == 0 {
		delete(m.groups, g)
	}
}

// ForgetIf forgets what passes of a group.
func (m *Memory[G, K, T]) ForgetIf(g G, pass func(T) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, t := range m.groups[g] {
		if pass(t) {
			delete(m.groups[g], k)
		}
	}
	if len(m.groups[g]) == 0 {
		delete(m.groups, g)
	}
}

// Get returns what is believed.
func (m *Memory[G, K, T]) Get(g G, k K) (t T, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, there = m.groups[g][k]
	return t, there
}

// In returns all of a group, in no order.
func (m *Memory[G, K, T]) In(g G) (all []T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.groups[g]))
}

// All returns all that is believed, in no order.
func (m *Memory[G, K, T]) All() []T { return m.Of(func(G) bool { return true }, false) }

// Of returns all of the groups that pass, in no order, and forgets them if gone.
func (m *Memory[G, K, T]) Of(pass func(G) bool, gone bool) (all []T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for g, group := range m.groups {
		if !pass(g) {
			continue
		}
		for _, t := range group {
			all = append(all, t)
		}
		if gone {
			delete(m.groups, g)
		}
	}
	return all
}
