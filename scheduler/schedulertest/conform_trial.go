package schedulertest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// View is what the scheduler would say of the kind under test; it has the
// methods of [scheduler.Kind] for reading. It may be used from any goroutine.
type View[V, M any] struct {
	mu     sync.Mutex
	wanted map[scheduler.Key]V
	there  map[scheduler.Key]scheduler.Known[V, M]
}

// Get returns what is in place at the key.
func (w *View[V, M]) Get(k scheduler.Key) (v V, m M, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kn, ok := w.there[k]
	return kn.Value, kn.Meta, ok
}

// Wanted returns what should be in place at the key.
func (w *View[V, M]) Wanted(k scheduler.Key) (v V, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok = w.wanted[k]
	return v, ok
}

// All yields everything that is in place, in no order.
func (w *View[V, M]) All() iter.Seq2[scheduler.Key, V] {
	w.mu.Lock()
	there := maps.Clone(w.there)
	w.mu.Unlock()
	return func(yield func(scheduler.Key, V) bool) {
		for k, kn := range there {
			if !yield(k, kn.Value) {
				return
			}
		}
	}
}

// known is what the scheduler would tell Retrieve of a key.
func (w *View[V, M]) known(k scheduler.Key) (kn scheduler.Known[V, M], ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kn, ok = w.there[k]; ok {
		return kn, true
	}
	v, ok := w.wanted[k]
	return scheduler.Known[V, M]{Key: k, Value: v}, ok
}

func (w *View[V, M]) want(k scheduler.Key, v V) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted[k] = v
}

func (w *View[V, M]) put(k scheduler.Key, v V, m M) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.there[k] = scheduler.Known[V, M]{Key: k, Value: v, Meta: m, InPlace: true}
}

func (w *View[V, M]) drop(k scheduler.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.there, k)
}

// trial is one law tried on a descriptor: it does what the scheduler would do
// and keeps what the scheduler would believe.
type trial[V, M any] struct {
	t      testing.TB
	d      scheduler.Descriptor[V, M]
	spec   Spec[V, M]
	view   *View[V, M]
	order  []scheduler.Key // what was made, to take it away in reverse
	at     scheduler.Key   // what is being tried, for panics
	report func(k scheduler.Key, what string)
}

func newTrial[V, M any](t testing.TB, d scheduler.Descriptor[V, M], spec Spec[V, M]) *trial[V, M] {
	x := &trial[V, M]{t: t, d: d, spec: spec.withDefaults(), at: d.Prefix,
		view: &View[V, M]{wanted: map[scheduler.Key]V{}, there: map[scheduler.Key]scheduler.Known[V, M]{}}}
	for _, s := range spec.Samples {
		x.view.want(s.Key, s.Values[0])
	}
	return x
}

func (x *trial[V, M]) fail(k scheduler.Key, format string, args ...any) {
	if k == "" {
		k = x.at
	}
	x.report(k, fmt.Sprintf(format, args...))
}

func (x *trial[V, M]) observed() bool { return x.d.Create == nil }

// each tries something with every sample alone, with what it needs in place;
// the last first, so that what is left in the way of one is not so for others.
func (x *trial[V, M]) each(f func(s Sample[V])) {
	for _, s := range slices.Backward(x.spec.Samples) {
		x.at = s.Key
		if x.ground(s.Key, s.Values[0]) {
			f(s)
		}
		x.clear()
	}
}

// pairs tries something with every value and every other of the same key.
func (x *trial[V, M]) pairs(f func(k scheduler.Key, from, to V)) {
	for _, s := range x.spec.Samples {
		x.at = s.Key
		for i, from := range s.Values {
			for j, to := range s.Values {
				if i == j {
					continue
				}
				if x.ground(s.Key, from) && x.ground(s.Key, to) {
					f(s.Key, from, to)
				}
				x.clear()
			}
		}
	}
}

// ground makes the other samples that a value needs.
func (x *trial[V, M]) ground(k scheduler.Key, v V) bool {
	for _, s := range x.needed(k, v) {
		if _, _, there := x.view.Get(s.Key); there {
			continue
		}
		if !x.ground(s.Key, s.Values[0]) || !x.create(s.Key, s.Values[0]) {
			return false
		}
	}
	return true
}

// needed are the samples that a value needs.
func (x *trial[V, M]) needed(k scheduler.Key, v V) (list []Sample[V]) {
	if x.d.Needs == nil {
		return nil
	}
	for _, n := range x.d.Needs(k, v) {
		for _, s := range x.spec.Samples {
			if n.Key == s.Key && s.Key != k && !n.Together {
				list = append(list, s)
			}
		}
	}
	return list
}

// all makes every sample with its first value.
func (x *trial[V, M]) all() bool {
	for _, s := range x.spec.Samples {
		x.at = s.Key
		if !x.ground(s.Key, s.Values[0]) || !x.create(s.Key, s.Values[0]) {
			return false
		}
	}
	return true
}

// clear takes away all that was made, the last first. What goes wrong with
// that is for other laws.
func (x *trial[V, M]) clear() {
	for _, k := range slices.Backward(x.order) {
		v, m, there := x.view.Get(k)
		switch {
		case !there:
		case x.observed():
			x.spec.Remove(x.t, k)
		default:
			_ = x.d.Delete(context.Background(), k, v, m)
		}
		x.view.drop(k)
	}
	x.order = nil
}

// create makes an object as the scheduler would, and reports if that fails.
func (x *trial[V, M]) create(k scheduler.Key, v V) bool {
	if x.observed() {
		if x.d.Interest != nil {
			x.d.Interest(k, true)
		}
		var m M
		x.made(k, x.spec.Make(x.t, k, v), m)
		return true
	}
	x.view.want(k, v)
	ctx, cancel := x.deadline()
	defer cancel()
	m, err := x.d.Create(ctx, k, v)
	if err != nil {
		x.fail(k, "Create of %s failed: %v", show(v), err)
		return false
	}
	x.made(k, v, m)
	return true
}

func (x *trial[V, M]) made(k scheduler.Key, v V, m M) {
	x.view.put(k, v, m)
	x.order = append(x.order, k)
}

// update changes an object as the scheduler would, replacing it if it must.
func (x *trial[V, M]) update(k scheduler.Key, to V, change scheduler.ChangeClass) bool {
	from, m, _ := x.view.Get(k)
	x.view.want(k, to)
	if change == scheduler.Replace || x.d.Update == nil {
		return x.remove(k) && x.ground(k, to) && x.create(k, to)
	}
	ctx, cancel := x.deadline()
	defer cancel()
	m, err := x.d.Update(ctx, k, from, to, m)
	if err != nil {
		x.fail(k, "Update from %s to %s failed: %v", show(from), show(to), err)
		return false
	}
	x.view.put(k, to, m)
	return true
}

// remove deletes an object as the scheduler would.
func (x *trial[V, M]) remove(k scheduler.Key) bool {
	v, m, there := x.view.Get(k)
	if !there {
		v, _ = x.view.Wanted(k)
	}
	if x.observed() {
		x.spec.Remove(x.t, k)
		x.gone(k)
		return true
	}
	ctx, cancel := x.deadline()
	defer cancel()
	if err := x.d.Delete(ctx, k, v, m); err != nil {
		x.fail(k, "Delete of %s failed: %v", show(v), err)
		return false
	}
	x.gone(k)
	return true
}

// gone takes note that an object is gone. What is needed together with it may
// have gone as well, and is looked at, as the scheduler does.
func (x *trial[V, M]) gone(k scheduler.Key) {
	v, _, there := x.view.Get(k)
	x.view.drop(k)
	if !there || x.d.Needs == nil {
		return
	}
	for _, n := range x.d.Needs(k, v) {
		if _, _, believed := x.view.Get(n.Key); !n.Together || !believed {
			continue
		}
		if _, there, ok := x.find(n.Key); ok && !there {
			x.view.drop(n.Key)
		}
	}
}

func (x *trial[V, M]) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), max(x.d.Timeout, x.spec.Patience))
}

// scope asks for keys, for all without any.
func (x *trial[V, M]) scope(keys ...scheduler.Key) scheduler.Scope[V, M] {
	keys = slices.Sorted(slices.Values(keys))
	s := scheduler.Scope[V, M]{All: len(keys) == 0, Keys: keys}
	if s.All {
		for _, sample := range x.spec.Samples {
			keys = append(keys, sample.Key)
		}
	}
	for _, k := range slices.Sorted(slices.Values(keys)) {
		if kn, ok := x.view.known(k); ok {
			s.Known = append(s.Known, kn)
		}
	}
	return s
}

// retrieve reads and reports what no reading may yield.
func (x *trial[V, M]) retrieve(s scheduler.Scope[V, M]) map[scheduler.Key]scheduler.Found[V, M] {
	ctx, cancel := x.deadline()
	defer cancel()
	all := map[scheduler.Key]scheduler.Found[V, M]{}
	for f, err := range x.d.Retrieve(ctx, s) {
		_, double := all[f.Key]
		switch {
		case err != nil:
			x.fail(f.Key, "Retrieve of %s yields an error: %v", scopeText(s), err)
			continue
		case !strings.HasPrefix(string(f.Key), string(x.d.Prefix)) || f.Key == x.d.Prefix:
			x.fail(f.Key, "Retrieve yields the key, which is none of %s", x.d.Prefix)
		case !s.All && !slices.Contains(s.Keys, f.Key):
			x.fail(f.Key, "Retrieve of %s yields the key, which was not asked for", scopeText(s))
		case double:
			x.fail(f.Key, "Retrieve of %s yields the key twice", scopeText(s))
		}
		all[f.Key] = f
	}
	return all
}

func scopeText[V, M any](s scheduler.Scope[V, M]) string {
	if s.All {
		return "all"
	}
	return fmt.Sprint(s.Keys)
}

// find reads one key. Of a kind without Retrieve nothing can be told: ok is false.
func (x *trial[V, M]) find(k scheduler.Key) (f scheduler.Found[V, M], there, ok bool) {
	if x.d.Retrieve == nil {
		return f, false, false
	}
	f, there = x.retrieve(x.scope(k))[k]
	return f, there, true
}

// isAs reports if the actual object is not as it was asked.
func (x *trial[V, M]) isAs(k scheduler.Key, v V, after string) (f scheduler.Found[V, M], ok bool) {
	f, there, can := x.find(k)
	if !can {
		return f, false
	}
	switch {
	case !there:
		x.fail(k, "after %s Retrieve does not find it", after)
		return f, false
	case f.Foreign && !x.observed():
		x.fail(k, "after %s Retrieve finds it as somebody else's", after)
		return f, false
	}
	if verdict := x.compare(k, f.Value, v); verdict.Change != scheduler.Same {
		x.fail(k, "after %s Retrieve finds %s where %s was asked: %s", after, show(f.Value), show(v), verdict.Reason)
		return f, false
	}
	return f, true
}

// isGone reports if the object is still there.
func (x *trial[V, M]) isGone(k scheduler.Key, after string) bool {
	f, there, can := x.find(k)
	if can && there && !f.Foreign {
		x.fail(k, "after %s Retrieve still finds %s", after, show(f.Value))
		return false
	}
	return true
}

// within runs f and reports whether it ended in time. What does not end is left
// behind, and nothing more can be tried.
func (x *trial[V, M]) within(f func()) bool {
	done := make(chan struct{})
	var panicked any
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
	}()
	if !x.ends(done) {
		return false
	}
	if panicked != nil {
		panic(panicked)
	}
	return true
}

func (x *trial[V, M]) ends(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(x.spec.Patience):
		return false
	}
}

func show(v any) string {
	if r := reflect.ValueOf(v); r.Kind() == reflect.String {
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%+v", v)
}
