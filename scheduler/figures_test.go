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
