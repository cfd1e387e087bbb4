package kind

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Registry finds the kind of a key. Prefixes end in a slash and do not overlap,
// so each folder of the key is looked up once.
type Registry struct {
	byPrefix map[string]*Kind
	sorted   []*Kind
	depth    int // the most slashes in a prefix
	last     *Kind
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry { return &Registry{byPrefix: map[string]*Kind{}} }

// Find returns the kind of a key, nil if none is registered.
func (ks *Registry) Find(k kv.Key) *Kind {
	s := string(k)
	if ks.last != nil && strings.HasPrefix(s, string(ks.last.Prefix)) {
		return ks.last
	}
	for i, d := 0, 0; d < ks.depth; d++ {
		j := strings.IndexByte(s[i:], '/')
		if j < 0 {
			return nil
		}
		i += j + 1
		if kd := ks.byPrefix[s[:i]]; kd != nil {
			ks.last = kd
			return kd
		}
	}
	return nil
}

// GraphKind is Find for the graph.
func (ks *Registry) GraphKind(k kv.Key) *graph.Kind {
	if kd := ks.Find(k); kd != nil {
		return &kd.Kind
	}
	return nil
}

// Derived are the values that a value splits off, and those that these do. One that its
// kind cannot take derives nothing.
func (ks *Registry) Derived(key kv.Key, v any) (out []kv.Change) {
	k := ks.Find(key)
	if k == nil || Validate(k, key, v) != nil || k.Derive == nil {
		return nil
	}
	defer func() { _ = recover() }() // then the key is invalid, for what it is worth
	for _, d := range k.Derive(key, v) {
		out = append(append(out, d), ks.Derived(d.Key, d.Value)...)
	}
	return out
}

// All are the kinds in the order of their prefixes.
func (ks *Registry) All() []*Kind { return ks.sorted }

// Registered reports whether it is this very kind that has its prefix.
func (ks *Registry) Registered(k *Kind) bool { return ks.byPrefix[string(k.Prefix)] == k }

// Add registers a kind; the error says what another has against it.
func (ks *Registry) Add(k *Kind) error {
	for _, o := range ks.sorted {
		if o.Name == k.Name {
			return fmt.Errorf("kind %q is registered already: unregister it first", k.Name)
		}
		if strings.HasPrefix(string(o.Prefix), string(k.Prefix)) || strings.HasPrefix(string(k.Prefix), string(o.Prefix)) {
			return fmt.Errorf("kind %q: its prefix %q overlaps with %q of kind %q: choose one that neither contains the other",
				k.Name, k.Prefix, o.Prefix, o.Name)
		}
	}
	if err := ks.checkOrder(k); err != nil {
		return err
	}
	ks.byPrefix[string(k.Prefix)] = k
	ks.depth = max(ks.depth, strings.Count(string(k.Prefix), "/"))
	i, _ := slices.BinarySearchFunc(ks.sorted, k, func(a, b *Kind) int { return strings.Compare(string(a.Prefix), string(b.Prefix)) })
	ks.sorted = slices.Insert(ks.sorted, i, k)
	return nil
}

// checkOrder refuses a kind that would be read after itself.
func (ks *Registry) checkOrder(k *Kind) error {
	way := []string{k.Name}
	var after func(names []string) bool
	after = func(names []string) bool {
		for _, name := range names {
			if way = append(way, name); name == k.Name {
				return true
			}
			if o := ks.Named(name); o != nil && after(o.ReadAfter) {
				return true
			}
			way = way[:len(way)-1]
		}
		return false
	}
	if after(k.ReadAfter) {
		return fmt.Errorf("kind %q would be read after itself, by ReadAfter: %s; take one out", k.Name, strings.Join(way, " after "))
	}
	return nil
}

// Named is the kind with a name, nil if none is registered.
func (ks *Registry) Named(name string) *Kind {
	for _, k := range ks.sorted {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Remove takes a kind out.
func (ks *Registry) Remove(k *Kind) {
	ks.last = nil
	delete(ks.byPrefix, string(k.Prefix))
	ks.sorted = slices.DeleteFunc(ks.sorted, func(o *Kind) bool { return o == k })
}

// Names are those of all kinds, in the order of their prefixes.
func (ks *Registry) Names() []string {
	out := make([]string, len(ks.sorted))
	for i, k := range ks.sorted {
		out[i] = k.Name
	}
	return out
}
