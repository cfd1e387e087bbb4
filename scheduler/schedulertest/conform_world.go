package schedulertest

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/plumb-net/plumb/scheduler"
)

func (x *trial[V, M]) createRetrieve() {
	for _, s := range x.spec.Samples {
		x.at = s.Key
		for _, v := range s.Values {
			if x.ground(s.Key, v) && x.create(s.Key, v) {
				there, _, _ := x.view.Get(s.Key)
				x.isAs(s.Key, there, "Create")
			}
			x.clear()
		}
	}
}

func (x *trial[V, M]) createTwice() {
	x.each(func(s Sample[V]) {
		k, v := s.Key, s.Values[0]
		if !x.create(k, v) {
			return
		}
		_, first, _ := x.view.Get(k)
		if !x.create(k, v) {
			return
		}
		if _, second, _ := x.view.Get(k); !reflect.DeepEqual(first, second) {
			x.fail(k, "the metadata is %v, and after a second Create %v", show(first), show(second))
		}
		x.isAs(k, v, "a second Create")
	})
}

func (x *trial[V, M]) deletes() {
	x.each(func(s Sample[V]) {
		if x.create(s.Key, s.Values[0]) && x.remove(s.Key) {
			x.isGone(s.Key, "Delete")
		}
	})
}

func (x *trial[V, M]) deleteAbsent() {
	x.each(func(s Sample[V]) {
		if !x.remove(s.Key) { // nothing was ever made: there is no metadata
			return
		}
		if x.create(s.Key, s.Values[0]) {
			v, m, _ := x.view.Get(s.Key)
			if x.remove(s.Key) {
				x.view.put(s.Key, v, m)
				x.remove(s.Key)
			}
		}
	})
}

func (x *trial[V, M]) noOp() {
	for _, s := range x.spec.Samples {
		x.at = s.Key
		for _, from := range s.Values {
			for _, to := range s.Values {
				if x.ground(s.Key, from) && x.ground(s.Key, to) {
					x.changes(s.Key, from, to)
				}
				x.clear()
			}
		}
	}
}

// changes holds the verdict about two values against what changing does.
func (x *trial[V, M]) changes(k scheduler.Key, from, to V) {
	if !x.create(k, from) {
		return
	}
	before, there, _ := x.find(k)
	if !there {
		return // not the business of this law
	}
	verdict := x.compare(k, before.Value, to)
	change := verdict.Change
	if change == scheduler.Same {
		change = scheduler.InPlace
	}
	if !x.update(k, to, change) {
		return
	}
	after, _, _ := x.find(k)
	same := x.spec.Identical(x.spec.Normalize(k, before.Value, to), x.spec.Normalize(k, after.Value, to))
	switch {
	case verdict.Change == scheduler.Same && !same:
		x.fail(k, "%s is said to be the same as %s, and asking for it makes it %s", show(before.Value), show(to), show(after.Value))
	case verdict.Change != scheduler.Same && x.spec.Identical(before.Value, after.Value):
		x.fail(k, "%s is said to differ from %s (%s), and asking for it changes nothing", show(before.Value), show(to), verdict.Reason)
	}
}

func (x *trial[V, M]) updates() {
	x.pairs(func(k scheduler.Key, from, to V) {
		if !x.create(k, from) {
			return
		}
		verdict := x.compare(k, from, to)
		if verdict.Change == scheduler.Same || !x.update(k, to, verdict.Change) {
			return
		}
		changed, ok := x.isAs(k, to, "the change from "+show(from))
		if !ok || !inPlace(verdict) || !x.remove(k) || !x.ground(k, to) || !x.create(k, to) {
			return
		}
		anew, _, _ := x.find(k)
		if a, b := x.spec.Normalize(k, changed.Value, to), x.spec.Normalize(k, anew.Value, to); !x.spec.Identical(a, b) {
			x.fail(k, "changed from %s it is %s, made anew %s", show(from), show(a), show(b))
		}
	})
}

func (x *trial[V, M]) updateAbsent() {
	x.pairs(func(k scheduler.Key, from, to V) {
		if !inPlace(x.compare(k, from, to)) || !x.create(k, from) {
			return
		}
		_, m, _ := x.view.Get(k)
		if !x.remove(k) {
			return
		}
		x.view.want(k, to)
		ctx, cancel := x.deadline()
		defer cancel()
		if m, err := x.d.Update(ctx, k, from, to, m); err == nil {
			x.made(k, to, m)
			x.isAs(k, to, "an Update that succeeded on nothing")
		}
	})
}

func (x *trial[V, M]) metadata() {
	x.pairs(func(k scheduler.Key, from, to V) {
		agrees := func(after string) bool {
			_, m, _ := x.view.Get(k)
			f, there, _ := x.find(k)
			if there && !reflect.DeepEqual(m, f.Meta) {
				x.fail(k, "%s gave %s, Retrieve finds %s", after, show(m), show(f.Meta))
				return false
			}
			return there
		}
		if x.create(k, from) && agrees("Create") && x.update(k, to, x.compare(k, from, to).Change) {
			agrees("the change of the value")
		}
	})
}

func (x *trial[V, M]) scopes() {
	if !x.all() {
		return
	}
	all := x.retrieve(x.scope())
	var keys []scheduler.Key
	for _, s := range x.spec.Samples {
		keys = append(keys, s.Key)
		if _, there := all[s.Key]; !there {
			x.fail(s.Key, "Retrieve of all does not yield it")
		}
		x.alike(s.Key, all, x.retrieve(x.scope(s.Key)))
	}
	for k, f := range all {
		if !slices.Contains(keys, k) && !f.Foreign && !x.observed() {
			x.fail(k, "Retrieve yields it as ours, and nobody made it")
		}
	}
	together := x.retrieve(x.scope(keys...))
	for _, k := range keys {
		x.alike(k, all, together)
	}
	for range x.d.Retrieve(context.Background(), x.scope()) {
		break // a reader may stop at any time
	}
	last := x.spec.Samples[len(x.spec.Samples)-1].Key
	if x.remove(last) {
		if _, there := x.retrieve(x.scope())[last]; there {
			x.fail(last, "it is gone, and Retrieve of all yields it")
		}
		if _, there := x.retrieve(x.scope(keys...))[last]; there {
			x.fail(last, "it is gone, and Retrieve of %v yields it", keys)
		}
	}
}

// alike compares how a key was read with how it is read among all.
func (x *trial[V, M]) alike(k scheduler.Key, all, some map[scheduler.Key]scheduler.Found[V, M]) {
	a, inAll := all[k]
	b, inSome := some[k]
	switch {
	case inAll != inSome:
		x.fail(k, "found among all: %t, by key: %t", inAll, inSome)
	case !inAll:
	case !x.spec.Identical(a.Value, b.Value) || a.Foreign != b.Foreign || !reflect.DeepEqual(a.Meta, b.Meta):
		x.fail(k, "among all it is %s, by key %s", show(a), show(b))
	}
}

func (x *trial[V, M]) lost() {
	x.each(func(s Sample[V]) {
		k, v := s.Key, s.Values[0]
		if !x.create(k, v) {
			return
		}
		x.spec.Remove(x.t, k)
		x.isGone(k, "somebody else removed it")
		if x.remove(k) && x.ground(k, v) && x.create(k, v) {
			x.isAs(k, v, "it was lost and made again")
		}
	})
}

func (x *trial[V, M]) restart() {
	if !x.all() {
		return
	}
	for _, hints := range []bool{false, true} {
		there := x.view.there
		x.view.there = map[scheduler.Key]scheduler.Known[V, M]{} // nothing is believed, but wanted
		x.d = x.spec.Restart(x.t)
		scope := x.scope()
		if !hints {
			scope.Known = nil
		}
		found := x.retrieve(scope)
		for _, k := range slices.Sorted(maps.Keys(there)) {
			f, ok := found[k]
			switch {
			case !ok:
				x.fail(k, "Retrieve of all, hints: %t, does not find it", hints)
			case f.Foreign:
				x.fail(k, "Retrieve of all, hints: %t, finds it as somebody else's", hints)
			case hints && x.compare(k, f.Value, there[k].Value).Change != scheduler.Same:
				x.fail(k, "%s was made, %s is found: %s", show(there[k].Value), show(f.Value), x.compare(k, f.Value, there[k].Value).Reason)
			}
			if ok {
				x.view.put(k, there[k].Value, f.Meta)
			}
		}
	}
	for _, s := range slices.Backward(x.spec.Samples) {
		if x.remove(s.Key) {
			x.isGone(s.Key, "Delete with the metadata found")
		}
	}
}

func (x *trial[V, M]) foreign() {
	x.each(func(s Sample[V]) {
		k, v := s.Key, s.Values[0]
		stands := x.spec.Foreign(x.t, k, v)
		x.notOurs(k)
		ctx, cancel := x.deadline()
		defer cancel()
		m, err := x.d.Create(ctx, k, v)
		if err == nil {
			x.fail(k, "Create succeeds; want a Conflict")
		} else if owner := ownerOf(err); owner == "" {
			x.fail(k, "Create fails with %v; want a Conflict that names the owner", err)
		}
		x.notOurs(k)
		_ = x.d.Delete(ctx, k, v, m)
		if !stands() {
			x.fail(k, "Create and Delete did not leave it as it was")
		}
	})
}

func (x *trial[V, M]) notOurs(k scheduler.Key) {
	if f, there, _ := x.find(k); there && !f.Foreign {
		x.fail(k, "Retrieve shows what somebody else made as ours: %s", show(f.Value))
	}
}

func ownerOf(err error) string {
	var class *scheduler.OpError
	if errors.As(err, &class) {
		return class.Owner
	}
	return ""
}
