package scheduler

import (
	"iter"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// activate fills the view; it runs in the loop.
func (l *loop) activate(k *kind.Kind) {
	if k.View.Active.Load() {
		return
	}
	k.View.Mu.Lock()
	k.View.Entries = map[Key]kind.ViewEntry{}
	k.View.Mu.Unlock()
	l.G.Below(k.Prefix, func(n *graph.Node) bool { k.View.Set(n); return true })
	k.View.Active.Store(true)
}

func (s *Scheduler) look(k *kind.Kind, key Key) (kind.ViewEntry, bool) {
	if !k.View.Active.Load() && s.call(func(l *loop) { l.activate(k) }) != nil {
		return kind.ViewEntry{}, false
	}
	k.View.Mu.RLock()
	defer k.View.Mu.RUnlock()
	l, ok := k.View.Entries[key]
	return l, ok
}

func (s *Scheduler) lookAll(k *kind.Kind) map[Key]kind.ViewEntry {
	if !k.View.Active.Load() && s.call(func(l *loop) { l.activate(k) }) != nil {
		return nil
	}
	k.View.Mu.RLock()
	defer k.View.Mu.RUnlock()
	return maps.Clone(k.View.Entries)
}

// Index finds what is in place of a kind by names of your choice: interfaces by their
// host name, containers by their namespace. Make one with [NewIndex].
type Index[V, M any] struct {
	k      *Kind[V, M]
	of     func(k Key, v V, m M) []string
	byName map[string]map[Key]Object[V, M]
	names  map[Key][]string
}

// NewIndex makes an index of a kind, which follows it from then on. of names an object; it
// is pure, quick, and asks nothing of the scheduler. One that panics gives no names.
// The error is ErrStopped.
func NewIndex[V, M any](k *Kind[V, M], of func(k Key, v V, m M) []string) (*Index[V, M], error) {
	x := &Index[V, M]{k: k, of: of, byName: map[string]map[Key]Object[V, M]{}, names: map[Key][]string{}}
	err := k.s.call(func(l *loop) {
		l.activate(k.k)
		v := &k.k.View
		v.Mu.Lock()
		defer v.Mu.Unlock()
		v.Indexes = append(v.Indexes, x.update)
		for key, e := range v.Entries {
			x.update(key, e)
		}
	})
	return x, err
}

// Find yields what has the name, sorted by key. It waits for nobody, and what it yields
// is of one time.
func (x *Index[V, M]) Find(name string) iter.Seq2[Key, Object[V, M]] {
	v := &x.k.k.View
	v.Mu.RLock()
	found := maps.Clone(x.byName[name])
	v.Mu.RUnlock()
	return func(yield func(Key, Object[V, M]) bool) {
		for _, k := range slices.Sorted(maps.Keys(found)) {
			if !yield(k, found[k]) {
				return
			}
		}
	}
}

// update runs in the loop, with the view locked.
func (x *Index[V, M]) update(k Key, e kind.ViewEntry) {
	for _, name := range x.names[k] {
		if delete(x.byName[name], k); len(x.byName[name]) == 0 {
			delete(x.byName, name)
		}
	}
	delete(x.names, k)
	o, ok := objectOf[V, M](e)
	if !ok {
		return
	}
	names := x.namesOf(k, o)
	for _, name := range names {
		if x.byName[name] == nil {
			x.byName[name] = map[Key]Object[V, M]{}
		}
		x.byName[name][k] = o
	}
	if len(names) > 0 {
		x.names[k] = names
	}
}

func (x *Index[V, M]) namesOf(k Key, o Object[V, M]) (names []string) {
	defer kv.OnPanic(func(any) { names = nil })
	return slices.Clone(x.of(k, o.Value, o.Meta))
}
