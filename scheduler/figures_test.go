package scheduler_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestOperationsAreCounted: by kind, by what they do and by how they ended, with their time.
// What was found gone is deleted, and what is only previewed is not counted.
func TestOperationsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name != "a" {
				return d
			}
			create, remove := d.Create, d.Delete
			d.Create = func(ctx context.Context, k scheduler.Key, v schedulertest.Thing) (int, error) {
				time.Sleep(20 * time.Millisecond)
				if tries++; tries == 1 {
					return 0, errors.New("no")
				}
				return create(ctx, k, v)
			}
			d.Delete = func(ctx context.Context, k scheduler.Key, v schedulertest.Thing, m int) error {
				return scheduler.NotFound(errors.Join(errors.New("it has gone"), remove(ctx, k, v, m)))
			}
			return d
		})
		r.want("a/1 v1")
		time.Sleep(time.Minute)
		r.want("a/1 v2")
		if _, err := r.Preview(ctx, scheduler.Txn{Want: changes("a/1 v3", "a/2 v1")}); err != nil {
			t.Error(err)
		}
		r.want("a/1 -")
		within := func(short, rest uint64) map[time.Duration]uint64 {
			return map[time.Duration]uint64{
				time.Millisecond: short, 10 * time.Millisecond: short, 100 * time.Millisecond: rest, time.Second: rest, 10 * time.Second: rest,
			}
		}
		for _, k := range r.Kinds() {
			var want []scheduler.OperationFigures
			if k.Name == "a" {
				want = []scheduler.OperationFigures{
					{Op: scheduler.OpCreate, OK: 1, Failed: 1, Took: 40 * time.Millisecond, Within: within(0, 2)},
					{Op: scheduler.OpUpdate, OK: 1, Within: within(1, 1)},
					{Op: scheduler.OpDelete, OK: 1, Within: within(1, 1)},
				}
			}
			if !reflect.DeepEqual(k.Operations, want) {
				t.Errorf("%s: %+v, want %+v", k.Name, k.Operations, want)
			}
		}
	})
}

// TestDriftIsCounted: what others change once, and what of that was repaired; what a policy
// leaves is found alone, and a plan of what might happen counts nothing.
func TestDriftIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{Policies: []scheduler.Policy{{Keys: "b/", Drift: scheduler.DriftAlert}}})
		r.want("a/1 v1", "a/2 v1", "b/1 v1")
		if _, err := r.WhatIf(ctx, scheduler.Event{Vanish: []scheduler.Key{"a/1"}}); err != nil {
			t.Error(err)
		}
		for _, key := range []scheduler.Key{"a/1", "b/1"} {
			r.world.Put(key, schedulertest.Thing{Text: "other"}, true)
			synctest.Wait()
		}
		r.world.Take("a/2", true)
		synctest.Wait()
		r.want("a/1 v2") // which repairs nothing
		for _, k := range r.Kinds() {
			want := map[string]scheduler.DriftFigures{"a": {Found: 2, Repaired: 2}, "b": {Found: 1}}[k.Name]
			if k.Drift != want {
				t.Errorf("%s: %+v, want %+v", k.Name, k.Drift, want)
			}
		}
	})
}

// TestLoopIsCounted: the rounds of the loop, what waits, and what the history takes.
func TestLoopIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		before := r.Figures()
		r.want("a/1 v1")
		after := r.Figures()
		if after.Rounds <= before.Rounds || after.History <= before.History || after.Inputs+after.Operations > 0 {
			t.Errorf("%+v, then %+v", before, after)
		}
	})
}

// TestTheLoopIsTimed: what descriptors do in the loop is time that it is busy.
func TestTheLoopIsTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name != "a" {
				return d
			}
			needs := d.Needs
			d.Needs = func(k scheduler.Key, v schedulertest.Thing) []scheduler.Need {
				time.Sleep(time.Millisecond)
				return needs(k, v)
			}
			return d
		})
		before := r.Figures()
		time.Sleep(time.Minute)
		r.want("a/1 v1")
		if f := r.Figures(); f.Busy-before.Busy < time.Millisecond || f.Busy-before.Busy > time.Second || f.Rounds == before.Rounds {
			t.Errorf("busy for %v in %d rounds", f.Busy-before.Busy, f.Rounds-before.Rounds)
		}
	})
}

// TestUnreadableIsDeleted: of a kind that cannot be read nobody knows what a creation that
// failed has left, so it is deleted when it is wanted no more, and not tried again.
func TestUnreadableIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name != "a" {
				return d
			}
			d.Retrieve = nil
			d.Create = func(context.Context, scheduler.Key, schedulertest.Thing) (int, error) {
				done = append(done, "create")
				return 0, errors.New("no")
			}
			d.Delete = func(context.Context, scheduler.Key, schedulertest.Thing, int) error {
				done = append(done, "delete")
				return nil
			}
			return d
		})
		r.want("a/1 v1")
		r.want("a/1 -")
		time.Sleep(time.Hour)
		if want := []string{"create", "delete"}; !reflect.DeepEqual(done, want) {
			t.Errorf("done was %v, want %v", done, want)
		}
	})
}
