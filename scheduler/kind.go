package scheduler

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/plumb-net/plumb/scheduler/internal/exec"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// erase checks a descriptor and strips its types.
func erase[V, M any](d Descriptor[V, M]) (*kind.Kind, error) {
	if err := check(d); err != nil {
		return nil, fmt.Errorf("kind %q: %w", d.Name, err)
	}
	k := &kind.Kind{Timeout: d.Timeout, Watch: d.Watch, ReadAfter: slices.Clone(d.ReadAfter)}
	k.Kind = graph.Kind{
		Name: d.Name, Prefix: d.Prefix, Impl: k,
		Observed: d.Create == nil,
		Reads:    d.Retrieve != nil,
		OnDemand: d.Interest != nil,
	}
	k.CheckType = func(v any) error {
		if _, ok := v.(V); !ok {
			return Invalid("", "the value is a %T, but %s takes %v", v, d.Name, reflect.TypeFor[V]())
		}
		return nil
	}
	erasePure(k, d)
	eraseOperations(k, d)
	eraseRetrieve(k, d)
	return k, nil
}

func erasePure[V, M any](k *kind.Kind, d Descriptor[V, M]) {
	if d.Needs != nil {
		k.Needs = func(key Key, v any) []Need { return d.Needs(key, v.(V)) }
	}
	if d.Claims != nil {
		k.Has("claims")
		k.Claims = func(key Key, v any) []Claim { return d.Claims(key, v.(V)) }
	}
	if d.Validate != nil {
		k.Has("validate")
		k.Validate = func(key Key, v any) error { return d.Validate(key, v.(V)) }
	}
	if d.Derive != nil {
		k.Has("derive")
		k.Derive = func(key Key, v any) []Change { return d.Derive(key, v.(V)) }
	}
	if d.DerivedBy != nil {
		k.Has("derived-by")
		k.DerivedBy = func(key Key) (base Key) {
			defer kv.OnPanic(func(any) { base = "" }) // it is judged by itself
			return d.DerivedBy(key)
		}
	}
	if d.Secrets != nil {
		k.Has("secrets")
		k.Secrets = func(v any) (shown any, secrets []string) {
			defer kv.OnPanic(func(any) { shown, secrets = nil, nil }) // nothing of it can be told
			typed, ok := v.(V)
			if !ok {
				return nil, nil
			}
			return d.Secrets(typed)
		}
	}
	if d.Lane != nil {
		k.Has("lane")
		k.Lane = func(key Key, v any) (lane string) {
			defer kv.OnPanic(func(any) { lane = "panicked" }) // serial is safe
			return d.Lane(key, v.(V))
		}
	}
	if d.Disruption != nil {
		k.Has("disruption")
		k.Disruption = func(key Key, from, to any) (worst Disruption) {
			defer kv.OnPanic(func(any) { worst = Cascading })
			f, _ := from.(V)
			t, _ := to.(V)
			return d.Disruption(key, f, t)
		}
	}
	if d.Encode != nil {
		k.Has("codec")
		k.Encode = func(v any) (b []byte, err error) {
			defer kv.OnPanic(func(p any) { err = fmt.Errorf("encoding panicked: %v", p) })
			return d.Encode(v.(V))
		}
		k.Decode = func(b []byte) (v any, err error) {
			defer kv.OnPanic(func(p any) { err = fmt.Errorf("decoding panicked: %v", p) })
			return d.Decode(b)
		}
	}
	if d.Interest != nil {
		k.Has("interest")
		k.Interest = func(key Key, wanted bool) {
			defer kv.OnPanic(func(any) {}) // the key is read all the same
			d.Interest(key, wanted)
		}
	}
	switch {
	case d.Compare != nil:
		k.Has("compare") // and Equal is not asked
	case d.Equal != nil:
		k.Has("equal")
	}
	if d.Timeout != 0 {
		k.Has("timeout")
	}
	k.Compare = comparer(d)
	if whole := k.Compare; d.Secrets != nil {
		k.Compare = func(key Key, from, to any) Verdict { return whole(key, k.Show(from), k.Show(to)) }
	}
	k.Identical = identity[V]()
	k.SameMeta = identity[M]()
}

// identity tells cheaply whether two values are the same, whatever a method Equal of
// theirs says; pointers to equal values may count as different.
func identity[T any]() func(a, b any) bool {
	if plainlyComparable(reflect.TypeFor[T]()) {
		return func(a, b any) bool { return a == b }
	}
	return reflect.DeepEqual
}

// plainlyComparable reports whether == works on all values of a type: what an interface holds may
// be of a type that has no ==.
func plainlyComparable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return false
	case reflect.Array:
		return plainlyComparable(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !plainlyComparable(t.Field(i).Type) {
				return false
			}
		}
	}
	return t.Comparable()
}

// comparer makes one verdict function of Compare, Equal and Update.
func comparer[V, M any](d Descriptor[V, M]) func(k Key, from, to any) Verdict {
	if d.Compare != nil {
		return func(k Key, from, to any) Verdict {
			v := d.Compare(k, from.(V), to.(V))
			if (v.Change == InPlace || v.Change == InPlaceAlone) && d.Update == nil {
				v.Change = Replace
			}
			return v
		}
	}
	equal := d.Equal
	if equal == nil {
		equal = equality[V]()
	}
	differ := Verdict{Change: Replace, Reason: "the value changed and cannot be changed in place"}
	if d.Update != nil {
		differ = Verdict{Change: InPlace, Reason: "the value changed"}
	}
	return func(k Key, from, to any) Verdict {
		if equal(k, from.(V), to.(V)) {
			return Verdict{}
		}
		return differ
	}
}

func equality[V any]() func(Key, V, V) bool {
	type equaler interface{ Equal(V) bool }
	t := reflect.TypeFor[V]()
	switch {
	case t.Implements(reflect.TypeFor[equaler]()):
		return func(_ Key, a, b V) bool { return any(a).(equaler).Equal(b) }
	case t.Kind() != reflect.Pointer && plainlyComparable(t):
		return func(_ Key, a, b V) bool { return any(a) == any(b) }
	}
	return func(_ Key, a, b V) bool { return reflect.DeepEqual(a, b) }
}

func eraseOperations[V, M any](k *kind.Kind, d Descriptor[V, M]) {
	if d.Create == nil {
		k.Has("observed")
		return
	}
	k.Create = func(ctx context.Context, key Key, v any) (any, error) { return d.Create(ctx, key, v.(V)) }
	k.Remove = func(ctx context.Context, key Key, v, meta any) error {
		val, _ := v.(V)
		m, _ := meta.(M)
		return d.Delete(ctx, key, val, m)
	}
	if d.Release != nil {
		k.Has("release")
		k.Release = func(ctx context.Context, key Key, v, found, meta any) error {
			val, _ := v.(V)
			was, _ := found.(V)
			m, _ := meta.(M)
			return d.Release(ctx, key, val, was, m)
		}
	}
	if d.GivesBack != nil {
		k.GivesBack = func(key Key, v, meta any) bool {
			val, _ := v.(V)
			m, _ := meta.(M)
			return d.GivesBack(key, val, m)
		}
	}
	if d.Update != nil {
		k.Has("update")
		k.Update = func(ctx context.Context, key Key, from, to, meta any) (any, error) {
			f, _ := from.(V)
			m, _ := meta.(M)
			return d.Update(ctx, key, f, to.(V), m)
		}
	}
	if d.CreateBatch != nil {
		k.Has("create-batch")
		k.CreateBatch, k.Creations = eraseBatch(d.CreateBatch, true), &exec.Group{}
	}
	if d.DeleteBatch != nil {
		k.Has("delete-batch")
		k.DeleteBatch, k.Deletions = eraseBatch(d.DeleteBatch, false), &exec.Group{}
	}
}

func eraseBatch[V, M any](batch func(context.Context, []*Op[V, M]), create bool) func(context.Context, []*kind.Op) {
	return func(ctx context.Context, ops []*kind.Op) {
		typed := make([]*Op[V, M], len(ops))
		for i, o := range ops {
			t := &Op[V, M]{Key: o.Key}
			if create {
				t.Value, _ = o.To.(V)
			} else {
				t.Value, _ = o.From.(V)
				t.Meta, _ = o.Meta.(M)
			}
			typed[i] = t
		}
		batch(ctx, slices.Clone(typed)) // whoever sorts it has the answers where they were
		for i, t := range typed {
			ops[i].Err = t.Err
			if create {
				ops[i].Meta = t.Meta
			}
		}
	}
}

func eraseRetrieve[V, M any](k *kind.Kind, d Descriptor[V, M]) {
	if d.Watch != nil {
		k.Has("watch")
	}
	if d.ChangedBy != nil {
		k.Has("changed-by")
		k.ChangedBy = func(key Key) (by string) {
			defer kv.OnPanic(func(any) { by = "" }) // it is repaired all the same
			return d.ChangedBy(key)
		}
	}
	if d.Retrieve == nil {
		return
	}
	k.Has("retrieve")
	if len(d.ReadAfter) > 0 {
		k.Has("read-after")
	}
	k.Retrieve = func(ctx context.Context, s kind.Scope, yield func(kind.Found, error) bool) {
		scope := Scope[V, M]{All: s.All, Keys: s.Keys, ReadOnly: s.ReadOnly, Known: make([]Known[V, M], 0, len(s.Known))}
		for _, kn := range s.Known {
			v, _ := kn.Value.(V)
			m, _ := kn.Meta.(M)
			scope.Known = append(scope.Known, Known[V, M]{Key: kn.Key, Value: v, Meta: m, InPlace: kn.InPlace})
		}
		for f, err := range d.Retrieve(ctx, scope) {
			if !yield(kind.Found{Key: f.Key, Value: f.Value, Meta: f.Meta, Foreign: f.Foreign, Owner: f.Owner}, err) {
				return
			}
		}
	}
}

// Kind is a registered kind: a typed door to what the scheduler knows of it.
// Its methods may be called anywhere, also inside operations, but not in the
// pure functions of a descriptor, which run in the loop. The first read of a
// kind asks the loop to fill a view of it; later ones wait for nobody.
type Kind[V, M any] struct {
	s *Scheduler
	k *kind.Kind
}

// Set is [Set] with the kind's type.
func (k *Kind[V, M]) Set(key Key, v V) Change { return Set(key, v) }

// Of returns what a status of the kind tells, with the kind's types: what is desired,
// what is in place and what is remembered of it; zero for what there is none of. It
// asks nobody.
func (k *Kind[V, M]) Of(s Status) (desired, actual V, meta M) {
	desired, _ = s.Desired.(V)
	actual, _ = s.Actual.(V)
	meta, _ = s.Meta.(M)
	return desired, actual, meta
}

// Get returns what is in place at the key.
func (k *Kind[V, M]) Get(key Key) (v V, m M, ok bool) {
	e, _ := k.s.look(k.k, key)
	o, ok := objectOf[V, M](e)
	return o.Value, o.Meta, ok
}

// Wanted returns what should be in place at the key: the strongest source's
// last valid value.
func (k *Kind[V, M]) Wanted(key Key) (v V, ok bool) {
	e, ok := k.s.look(k.k, key)
	if !ok || e.Desired == nil {
		return v, false
	}
	v, ok = e.Desired.(V)
	return v, ok
}

// All yields everything of the kind that is in place, in no order.
func (k *Kind[V, M]) All() iter.Seq2[Key, Object[V, M]] {
	return func(yield func(Key, Object[V, M]) bool) {
		for key, e := range k.s.lookAll(k.k) {
			if o, ok := objectOf[V, M](e); ok && !yield(key, o) {
				return
			}
		}
	}
}

// Object is what is in place at a key.
type Object[V, M any] struct {
	Value V
	Meta  M
}

func objectOf[V, M any](e kind.ViewEntry) (o Object[V, M], ok bool) {
	if o.Value, ok = e.Actual.(V); !ok || !e.InPlace {
		return o, false
	}
	o.Meta, _ = e.Meta.(M)
	return o, true
}
