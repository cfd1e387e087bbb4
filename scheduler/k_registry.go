package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// kinds finds the kind of a key. Prefixes end in a slash and do not overlap,
// so each folder of the key is looked up once.
type kinds struct {
	byPrefix map[string]*kind
	sorted   []*kind
	depth    int // the most slashes in a prefix
	last     *kind
}

func newKinds() *kinds { return &kinds{byPrefix: map[string]*kind{}} }

func (ks *kinds) find(k Key) *kind {
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

func (ks *kinds) graphKind(k Key) *graph.Kind {
	if kd := ks.find(k); kd != nil {
		return &kd.Kind
	}
	return nil
}

// all are the kinds in the order of their prefixes.
func (ks *kinds) all() []*kind { return ks.sorted }

func (ks *kinds) registered(k *kind) bool { return ks.byPrefix[string(k.Prefix)] == k }

func (ks *kinds) add(k *kind) error {
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
	i, _ := slices.BinarySearchFunc(ks.sorted, k, func(a, b *kind) int { return strings.Compare(string(a.Prefix), string(b.Prefix)) })
	ks.sorted = slices.Insert(ks.sorted, i, k)
	return nil
}

// checkOrder refuses a kind that would be read after itself.
func (ks *kinds) checkOrder(k *kind) error {
	way := []string{k.Name}
	var after func(names []string) bool
	after = func(names []string) bool {
		for _, name := range names {
			if way = append(way, name); name == k.Name {
				return true
			}
			if o := ks.named(name); o != nil && after(o.readAfter) {
				return true
			}
			way = way[:len(way)-1]
		}
		return false
	}
	if after(k.readAfter) {
		return fmt.Errorf("kind %q would be read after itself, by ReadAfter: %s; take one out", k.Name, strings.Join(way, " after "))
	}
	return nil
}

// named is the kind with a name, nil if none is registered.
func (ks *kinds) named(name string) *kind {
	for _, k := range ks.sorted {
		if k.Name == name {
			return k
		}
	}
	return nil
}

func (ks *kinds) remove(k *kind) {
	ks.last = nil
	delete(ks.byPrefix, string(k.Prefix))
	ks.sorted = slices.DeleteFunc(ks.sorted, func(o *kind) bool { return o == k })
}

func (ks *kinds) names() []string {
	out := make([]string, len(ks.sorted))
	for i, k := range ks.sorted {
		out[i] = k.Name
	}
	return out
}
