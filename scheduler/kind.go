package scheduler

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/internal/exec"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// erase checks a descriptor and strips its types.
func erase[V, M any](d Descriptor[V, M]) (*kind, error) {
	if err := check(d); err != nil {
		return nil, fmt.Errorf("kind %q: %w", d.Name, err)
	}
	k := &kind{timeout: d.Timeout, watch: d.Watch, readAfter: slices.Clone(d.ReadAfter)}
	k.Kind = graph.Kind{
		Name: d.Name, Prefix: d.Prefix, Impl: k,
		Observed: d.Create == nil,
		Reads:    d.Retrieve != nil,
		OnDemand: d.Interest != nil,
	}
	k.checkType = func(v any) error {
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

func erasePure[V, M any](k *kind, d Descriptor[V, M]) {
	if d.Needs != nil {
		k.Needs = func(key Key, v any) []Need { return d.Needs(key, v.(V)) }
	}
	if d.Claims != nil {
		k.has("claims")
		k.Claims = func(key Key, v any) []Claim { return d.Claims(key, v.(V)) }
	}
	if d.Validate != nil {
		k.has("validate")
		k.validate = func(key Key, v any) error { return d.Validate(key, v.(V)) }
	}
	if d.Derive != nil {
		k.has("derive")
		k.derive = func(key Key, v any) []Change { return d.Derive(key, v.(V)) }
	}
	if d.Secrets != nil {
		k.has("secrets")
		k.secrets = func(v any) (shown any, secrets []string) {
			defer kv.OnPanic(func(any) { shown, secrets = nil, nil }) // nothing of it can be told
			typed, ok := v.(V)
			if !ok {
				return nil, nil
			}
			return d.Secrets(typed)
		}
	}
	if d.Lane != nil {
		k.has("lane")
		k.lane = func(key Key, v any) (lane string) {
			defer kv.OnPanic(func(any) { lane = "panicked" }) // serial is safe
			return d.Lane(key, v.(V))
		}
	}
	if d.Disruption != nil {
		k.has("disruption")
		k.disruption = func(key Key, from, to any) (worst Disruption) {
			defer kv.OnPanic(func(any) { worst = Cascading })
			f, _ := from.(V)
			t, _ := to.(V)
			return d.Disruption(key, f, t)
		}
	}
	if d.Encode != nil {
		k.has("codec")
		k.encode = func(v any) (b []byte, err error) {
			defer kv.OnPanic(func(p any) { err = fmt.Errorf("encoding panicked: %v", p) })
			return d.Encode(v.(V))
		}
		k.decode = func(b []byte) (v any, err error) {
			defer kv.OnPanic(func(p any) { err = fmt.Errorf("decoding panicked: %v", p) })
			return d.Decode(b)
		}
	}
	if d.Interest != nil {
		k.has("interest")
		k.interest = func(key Key, wanted bool) {
			defer kv.OnPanic(func(any) {}) // the key is read all the same
			d.Interest(key, wanted)
		}
	}
	switch {
	case d.Compare != nil:
		k.has("compare") // and Equal is not asked
	case d.Equal != nil:
		k.has("equal")
	}
	if d.Timeout != 0 {
		k.has("timeout")
	}
	k.compare = comparer(d)
	if whole := k.compare; d.Secrets != nil {
		k.compare = func(key Key, from, to any) Verdict { return whole(key, k.show(from), k.show(to)) }
	}
	k.identical = identity[V]()
	k.sameMeta = identity[M]()
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

func eraseOperations[V, M any](k *kind, d Descriptor[V, M]) {
	if d.Create == nil {
		k.has("observed")
		return
	}
	k.create = func(ctx context.Context, key Key, v any) (any, error) { return d.Create(ctx, key, v.(V)) }
	k.remove = func(ctx context.Context, key Key, v, meta any) error {
		val, _ := v.(V)
		m, _ := meta.(M)
		return d.Delete(ctx, key, val, m)
	}
	if d.Release != nil {
		k.has("release")
		k.release = func(ctx context.Context, key Key, v, found, meta any) error {
			val, _ := v.(V)
			was, _ := found.(V)
			m, _ := meta.(M)
			return d.Release(ctx, key, val, was, m)
		}
	}
	if d.Update != nil {
		k.has("update")
		k.update = func(ctx context.Context, key Key, from, to, meta any) (any, error) {
			f, _ := from.(V)
			m, _ := meta.(M)
			return d.Update(ctx, key, f, to.(V), m)
		}
	}
	if d.CreateBatch != nil {
		k.has("create-batch")
		k.createBatch, k.creations = eraseBatch(d.CreateBatch, true), &exec.Group{}
	}
	if d.DeleteBatch != nil {
		k.has("delete-batch")
		k.deleteBatch, k.deletions = eraseBatch(d.DeleteBatch, false), &exec.Group{}
	}
}

func eraseBatch[V, M any](batch func(context.Context, []*Op[V, M]), create bool) func(context.Context, []*op) {
	return func(ctx context.Context, ops []*op) {
		typed := make([]*Op[V, M], len(ops))
		for i, o := range ops {
			t := &Op[V, M]{Key: o.key}
			if create {
				t.Value, _ = o.to.(V)
			} else {
				t.Value, _ = o.from.(V)
				t.Meta, _ = o.meta.(M)
			}
			typed[i] = t
		}
		batch(ctx, slices.Clone(typed)) // whoever sorts it has the answers where they were
		for i, t := range typed {
			ops[i].err = t.Err
			if create {
				ops[i].meta = t.Meta
			}
		}
	}
}

func eraseRetrieve[V, M any](k *kind, d Descriptor[V, M]) {
	if d.Watch != nil {
		k.has("watch")
	}
	if d.Retrieve == nil {
		return
	}
	k.has("retrieve")
	if len(d.ReadAfter) > 0 {
		k.has("read-after")
	}
	k.retrieve = func(ctx context.Context, s lookScope, yield func(found, error) bool) {
		scope := Scope[V, M]{All: s.all, Keys: s.keys, Known: make([]Known[V, M], 0, len(s.known))}
		for _, kn := range s.known {
			v, _ := kn.value.(V)
			m, _ := kn.meta.(M)
			scope.Known = append(scope.Known, Known[V, M]{Key: kn.key, Value: v, Meta: m, InPlace: kn.inPlace})
		}
		for f, err := range d.Retrieve(ctx, scope) {
			if !yield(found{key: f.Key, value: f.Value, meta: f.Meta, foreign: f.Foreign}, err) {
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
	k *kind
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
	if !ok || e.desired == nil {
		return v, false
	}
	v, ok = e.desired.(V)
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

func objectOf[V, M any](e viewEntry) (o Object[V, M], ok bool) {
	if o.Value, ok = e.actual.(V); !ok || !e.inPlace {
		return o, false
	}
	o.Meta, _ = e.meta.(M)
	return o, true
}
